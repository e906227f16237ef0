package rediscache

// Key returns a phrase's key.
func Key(c *Cache, phrase string) string { return c.key(phrase) }
