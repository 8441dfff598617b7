"""Sites of votes with covariates: z = βd + c·γ, every worker having coefficients γ of its own."""
