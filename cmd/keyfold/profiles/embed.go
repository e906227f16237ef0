package profiles

import (
	"errors"
	"fmt"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/internal/cli"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/users"

	"keyfold/cmd/keyfold/app"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// EmbedCmd tries the way from a phrase to a vector.
type EmbedCmd struct {
	Phrases []string `arg:"" name:"phrase" help:"Phrase to embed."`
	Near    int      `default:"5" help:"Number of nearest products; 0: do not connect to MongoDB."`
}

// embedded is what is shown of one phrase.
type embedded struct {
	Phrase     string     `json:"phrase"`
	Normal     string     `json:"normal_form"`
	Model      string     `json:"model"`
	Dimensions int        `json:"dimensions"`
	Norm       float64    `json:"norm"`
	From       string     `json:"from"` // redis, api or offline
	Millis     float64    `json:"milliseconds"`
	Nearest    []neighbor `json:"nearest_products"`
}

type neighbor struct {
	ProductID   int32   `json:"product_id"`
	ProductName string  `json:"product_name,omitempty"`
	Cosine      float64 `json:"cosine"`
}

// Check judges the phrases and the settings.
func (c *EmbedCmd) Check(a *app.App) error {
	faults := []error{cli.CheckNear(c.Near), a.Vectors.Usable()}
	for _, phrase := range c.Phrases {
		if vector.Normal(phrase, false) == "" {
			faults = append(faults, fmt.Errorf("the phrase %q is blank: there is nothing to embed", phrase))
		}
	}
	if c.Near > 0 {
		faults = append(faults, a.CheckStore())
	}
	return errors.Join(faults...)
}

// Run embeds each phrase and prints what came.
func (c *EmbedCmd) Run(a *app.App) error {
	return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error { return c.all(a, way) })
}

func (c *EmbedCmd) all(a *app.App, way *embedding.Embedding) error {
	if way.Redis != nil {
		if err := way.Redis.Ping(a.Ctx); err != nil {
			fmt.Fprintf(a.Stderr, "Redis is bypassed: %v\n", err)
		}
	}
	for _, phrase := range c.Phrases {
		e, unit, err := c.embed(a, way, phrase)
		if err != nil {
			return fmt.Errorf("%q: %w", phrase, err)
		}
		if c.Near > 0 {
			if err := c.nearest(a, e, unit); err != nil {
				return err
			}
		}
		if err := a.Emit(e, func(w *cli.Text) { e.print(w, c.Near > 0) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *EmbedCmd) embed(a *app.App, way *embedding.Embedding, phrase string) (*embedded, []float64, error) {
	shared := way.Phrases.Stats().Shared.Load()
	began := time.Now()
	answer := way.Phrases.Resolve(a.Ctx, []string{phrase})[0]
	if answer.Err != nil {
		return nil, nil, answer.Err
	}
	from := "api"
	switch {
	case a.Vectors.Offline:
		from = "offline"
	case way.Phrases.Stats().Shared.Load() > shared:
		from = "redis"
	}
	return &embedded{
		Phrase: phrase, Normal: vector.Normal(phrase, a.Vectors.Phrases.FoldCase), Model: a.Vectors.Model,
		Dimensions: len(answer.Vector), Norm: floats.Norm(answer.Vector, 2), From: from,
		Millis: float64(time.Since(began).Microseconds()) / 1000, Nearest: []neighbor{},
	}, answer.Vector, nil
}

// nearest looks the nearest products up. Without a store there are none, which
// is no reason to show nothing.
func (c *EmbedCmd) nearest(a *app.App, e *embedded, unit []float64) error {
	opened := false
	err := a.WithStore(func(store *mongodb.Store) error {
		opened = true
		near, err := catalog.Nearest(a.Ctx, [][]float64{unit}, c.Near, store.ProductStreams(a.Ctx)...)
		if err != nil {
			return err
		}
		for _, n := range near[0] {
			e.Nearest = append(e.Nearest, neighbor{n.Product.ID, n.Product.Name, n.Cosine})
		}
		return nil
	})
	if opened || engine.KindOf(err) == engine.Configuration {
		return err
	}
	fmt.Fprintf(a.Stderr, "no nearest products: %v\n", err)
	c.Near = 0
	return nil
}

func (e *embedded) print(w *cli.Text, near bool) {
	w.Line("%q (asked for as %q)", e.Phrase, e.Normal)
	w.Line("  %s, %d dimensions, norm %.6f, from %s in %.1f ms", e.Model, e.Dimensions, e.Norm, e.From, e.Millis)
	if near && len(e.Nearest) == 0 {
		w.Line(users.NoNearest)
	}
	for _, n := range e.Nearest {
		w.Line("    %6.3f  product %d  %s", n.Cosine, n.ProductID, n.ProductName)
	}
}
