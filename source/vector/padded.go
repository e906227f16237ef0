package vector

import "context"

// Padded returns an embedder whose vectors are those of another with zeros behind them, by a
// name of their own: products have learned components there, which no text has.
func Padded(of Embedder, zeros int, model string) Embedder { return padded{of, zeros, model} }

type padded struct {
	Embedder
	zeros int
	model string
}

func (p padded) Model() string { return p.model }

func (p padded) Dimensions() int { return p.Embedder.Dimensions() + p.zeros }

func (p padded) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	vectors, err := p.Embedder.Embed(ctx, phrases)
	if err != nil {
		return nil, err
	}
	all := make([][]float32, len(vectors))
	for i, v := range vectors { // the other's stay as they are: a cache may have them
		all[i] = append(make([]float32, 0, len(v)+p.zeros), v...)
		all[i] = append(all[i], make([]float32, p.zeros)...)
	}
	return all, nil
}
