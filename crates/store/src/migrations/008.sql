-- What is to be handed over is found among all that its providers have.
CREATE INDEX tl_retention_due ON tl_retention(provider, number) WHERE state = 1;
