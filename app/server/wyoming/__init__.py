"""Wyoming over TCP (github.com/OHF-Voice/wyoming): the protocol between Home Assistant and its voices."""
