"""The voices that the house voice learns from Kokoro, and the language that each of them reads."""

VOICES = ("af_heart", "am_michael", "bf_emma", "bm_fable", "em_alex", "ff_siwis", "if_sara", "pm_alex")
READERS = {
    "en-us": ("af_heart", "am_michael"),
    "en-gb": ("bf_emma", "bm_fable"),
    "es": ("em_alex",),
    "fr-fr": ("ff_siwis",),
    "it": ("if_sara",),
    "pt-br": ("pm_alex",),
}
