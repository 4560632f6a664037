"""tpuops: Cloud TPUs with the VM and the bucket beside them, trained on, kept alive and taken down again."""

__version__ = "0.1.0"
