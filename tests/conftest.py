"""What every test shares: the settings of Hypothesis."""

from hypothesis import settings

# A busy machine is slow, not wrong: tests here claim what comes out, never how fast.
settings.register_profile("radixcheck", deadline=None, print_blob=True)
settings.load_profile("radixcheck")
