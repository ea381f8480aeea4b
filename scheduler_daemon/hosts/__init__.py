"""What the scheduler knows of hosts: who takes which Session, what they were sent, and answered."""
