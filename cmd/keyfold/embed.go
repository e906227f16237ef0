package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/cmd/embedding"
	"keyfold/cmd/terminal"
	"keyfold/engine"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// embedCmd tries the way from a phrase to a vector.
type embedCmd struct {
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

func (c *embedCmd) check(a *app) error {
	faults := []error{checkNear(c.Near), a.checkVectors()}
	for _, phrase := range c.Phrases {
		if vector.Normal(phrase, false) == "" {
			faults = append(faults, fmt.Errorf("the phrase %q is blank: there is nothing to embed", phrase))
		}
	}
	if c.Near > 0 {
		faults = append(faults, a.checkStore())
	}
	return errors.Join(faults...)
}

// Run embeds each phrase and prints what came.
func (c *embedCmd) Run(a *app) (err error) {
	way, err := embedding.New(a.vectors, a.config.Taste.Dimensions, 0, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, way.Close()) }()
	if way.Redis != nil {
		if err := way.Redis.Ping(a.ctx); err != nil {
			fmt.Fprintf(a.stderr, "Redis is passed by: %v\n", err)
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
		if err := e.print(a); err != nil {
			return err
		}
	}
	return nil
}

func (c *embedCmd) embed(a *app, way *embedding.Embedding, phrase string) (*embedded, []float64, error) {
	shared := way.Phrases.Stats().Shared.Load()
	began := time.Now()
	answer := way.Phrases.Resolve(a.ctx, []string{phrase})[0]
	if answer.Err != nil {
		return nil, nil, answer.Err
	}
	from := "api"
	switch {
	case a.vectors.Offline:
		from = "offline"
	case way.Phrases.Stats().Shared.Load() > shared:
		from = "redis"
	}
	return &embedded{
		Phrase: phrase, Normal: vector.Normal(phrase, a.vectors.Phrases.FoldCase), Model: a.vectors.Model,
		Dimensions: len(answer.Vector), Norm: floats.Norm(answer.Vector, 2), From: from,
		Millis: float64(time.Since(began).Microseconds()) / 1000, Nearest: []neighbor{},
	}, answer.Vector, nil
}

// nearest looks the nearest products up. Without a store there are none, which
// is no reason to show nothing.
func (c *embedCmd) nearest(a *app, e *embedded, unit []float64) (err error) {
	store, err := openStore(a)
	if err != nil {
		if engine.KindOf(err) == engine.Configuration {
			return err
		}
		fmt.Fprintf(a.stderr, "no nearest products: %v\n", err)
		c.Near = 0
		return nil
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	near, err := catalog.Nearest(a.ctx, unit, store.AllProducts(a.ctx), c.Near)
	for _, n := range near {
		e.Nearest = append(e.Nearest, neighbor{n.Product.ID, n.Product.Name, n.Cosine})
	}
	return err
}

func (e *embedded) print(a *app) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(e)
	}
	w := &terminal.Text{W: a.stdout}
	w.Line("%q (asked for as %q)", e.Phrase, e.Normal)
	w.Line("  %s, %d dimensions, norm %.6f, from %s in %.1f ms", e.Model, e.Dimensions, e.Norm, e.From, e.Millis)
	for _, n := range e.Nearest {
		w.Line("    %6.3f  product %d  %s", n.Cosine, n.ProductID, n.ProductName)
	}
	return w.Err
}
