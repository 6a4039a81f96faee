"""The diffusion transformer of MDLM and BD3-LM: layer norms whose scale and shift follow the noise level."""
