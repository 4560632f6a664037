"""Stands for a device framework: nothing but its name, by which a machine knows a program that holds a device."""
