package vector

// OfflinePhrases returns the port over the offline embedder, whose vectors have so many
// components, the last of them zero: products have learned ones there.
func OfflinePhrases(dimensions, zeros int) (*Phrases, error) {
	hash, err := NewHash(dimensions - zeros)
	if err != nil {
		return nil, err
	}
	c := DefaultConfig()
	c.Zeros = zeros
	return NewPhrases(c, hash)
}
