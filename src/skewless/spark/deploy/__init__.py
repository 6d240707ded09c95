"""Sessions, packed environments and shipping: how skewless gets to the executors."""
