"""What stands in for an accelerator inside a machine: imitated, and labelled so. The cloud imports none of it."""
