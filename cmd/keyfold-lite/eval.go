package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"keyfold/cmd/evaluate"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/evaluation"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// evalCmd asks a log what profiles are worth.
type evalCmd struct {
	Events         string `name:"events" required:"" placeholder:"FILE" help:"NDJSON events, plain or gzip; - for stdin."`
	Products       string `name:"products" required:"" placeholder:"FILE" help:"NDJSON products."`
	Vectors        string `enum:"hash,stored,learned,cooc,knn" default:"hash" help:"hash: of names and phrases, offline; stored: the products' own, without searches; learned: as hash, joined to vectors learned from the sessions of the warm-up, as products learn makes them; cooc: learned ones alone; knn: none, item kNN."`
	Strict         bool   `name:"strict" help:"Exit with 1 if a line of the log is no event."`
	evaluate.Flags `embed:""`
}

// Help is the long text.
func (c *evalCmd) Help() string {
	return `It asks, for each product that a user turns to and had not met before: how near the front of all products does the
profile put it that keyfold would have had by then? Nothing after that instant is known to the profile, to popularity
or to what is learned. Settings are chosen by one part of the log and judged by a later one; a change is recommended
only where 95 of 100 draws of the users agree and the gain is 2 % or more. A half-life under a day is offered for a second
vector only: alone it forgets what was bought. Nothing is stored. The same log and
settings give the same bytes.

Examples:
  keyfold-lite eval --events log.ndjson.gz --products shop.ndjson
  keyfold-lite eval --events log.ndjson.gz --products shop.ndjson --html eval.html
  keyfold-lite eval --events log.ndjson.gz --products shop.ndjson --vectors cooc --warm-up 0.6 --choose 0 --age 15s
  keyfold-lite eval --events log.ndjson.gz --products shop.ndjson --vectors learned     whether products learn would pay
  keyfold-lite eval --events log.ndjson.gz --products shop.ndjson --control     what chance finds`
}

// Check judges the flags.
func (c *evalCmd) Check(*app) error { return c.CheckFlags() }

// Run evaluates.
func (c *evalCmd) Run(a *app) error {
	in := evaluation.Input{
		Model: embedderModel, Sparse: c.Vectors == "hash" || c.Vectors == evaluation.Hybrid, Laws: a.config.Processor.Config, Windows: evaluate.Windows(a.config.Shard),
		Products: map[int32]profile.Product{},
	}
	in.Laws.Dimensions = a.config.TextDimensions()
	if err := c.readProducts(a, &in); err != nil {
		return err
	}
	if err := c.readEvents(a, &in); err != nil {
		return err
	}
	in.Vectors = c.vectors(&in)
	err := c.Evaluate(a.ctx, &a.Console, in, c.Vectors, in.Sparse)
	if a.ctx.Err() != nil {
		return errors.New("interrupted: eval stores nothing")
	}
	if err != nil {
		return err
	}
	if c.Strict && in.Refused > 0 {
		return fmt.Errorf("%s of %s no event", cli.Count(int64(in.Refused), "line"), c.Events)
	}
	return nil
}

func (c *evalCmd) readProducts(a *app, in *evaluation.Input) error {
	file, err := cli.OpenInput(c.Products, a.Stdin)
	if err != nil {
		return err
	}
	defer file.Close()
	var first profile.Product // with a vector
	stored := 0
	for p, err := range catalog.ReadProducts(file.Lines) {
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		if p.Vector != nil {
			if first.Vector == nil {
				first = p
			}
			stored++
		}
		in.Products[p.ID] = p
		if c.Vectors != "stored" || p.Vector == nil {
			continue
		}
		if p.Model != first.Model || len(p.Vector) != len(first.Vector) {
			return fmt.Errorf("%s: product %d has a vector of %d components of the model %q, product %d one of %d of %q: vectors of two models cannot be compared",
				file.Name, p.ID, len(p.Vector), p.Model, first.ID, len(first.Vector), first.Model)
		}
	}
	switch {
	case len(in.Products) == 0:
		return fmt.Errorf("%s has no product: nothing can be ranked", file.Name)
	case c.Vectors != "stored":
		return nil
	case stored == 0:
		return fmt.Errorf("%s: no product has an embedding: leave --vectors out to compare names, or give a file with vectors", file.Name)
	}
	in.Laws.Dimensions = len(first.Vector)
	in.Model = fmt.Sprintf("%s, the products' own of %d components", cmp.Or(first.Model, "of no named model"), len(first.Vector))
	if lack := len(in.Products) - stored; lack > 0 {
		in.Model += fmt.Sprintf("; %s of %d have none", cli.Count(int64(lack), "product"), len(in.Products))
	}
	return nil
}

func (c *evalCmd) readEvents(a *app, in *evaluation.Input) error {
	file, err := cli.OpenInput(c.Events, a.Stdin)
	if err != nil {
		return err
	}
	defer file.Close()
	bar := a.Progress("reading "+file.Name, file.Size, file.Read)
	defer bar.Done()
	now := time.Now()
	for n := 0; ; n++ {
		body, err := file.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", file.Name, err)
		case n%1024 == 0 && a.ctx.Err() != nil:
			return a.ctx.Err()
		}
		bar.At(n)
		if e, err := profile.ParseEvent(body, now); err != nil {
			in.Refused++
		} else {
			in.Events = append(in.Events, e)
		}
	}
}

// vectors returns what makes the vectors of products and phrases.
func (c *evalCmd) vectors(in *evaluation.Input) func(context.Context, []eval.Thing) ([][]float32, error) {
	if c.Vectors == "stored" {
		return func(_ context.Context, things []eval.Thing) (all [][]float32, err error) {
			for _, thing := range things {
				all = append(all, in.Products[thing.Product].Vector) // a phrase is of no product
			}
			return all, nil
		}
	}
	return func(ctx context.Context, things []eval.Thing) ([][]float32, error) {
		hash, err := vector.NewHash(in.Laws.Dimensions)
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(things))
		for i, thing := range things {
			if texts[i] = vector.Normal(thing.Phrase, false); thing.Product != 0 {
				texts[i] = catalog.EmbedText(in.Products[thing.Product])
			}
		}
		return hash.Embed(ctx, texts)
	}
}
