"""What a project has beside machines: quotas, service accounts, and what a test says of them."""
