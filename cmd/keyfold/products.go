package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"keyfold/cmd/embedding"
	"keyfold/cmd/products"
	"keyfold/cmd/terminal"
	"keyfold/source/catalog"
)

type productsCmd struct {
	Import importCmd `cmd:"" help:"Import products from NDJSON: product_id, product_name, category, embedding."`
}

// importCmd imports a catalogue.
type importCmd struct {
	File  string `arg:"" help:"NDJSON, plain or gzip; - for stdin."`
	Embed bool   `help:"Embed products that have no vector from their name and category."`
	Rate  rate   `name:"rate" placeholder:"N/s" help:"Embedding requests a second at most."`
	Again bool   `help:"With --embed: embed every product again, even if the store has its vector."`
}

func (c *importCmd) check(a *app) error {
	faults := []error{a.checkStore()}
	switch {
	case c.Embed:
		faults = append(faults, a.checkVectors())
	case c.Again || c.Rate > 0:
		faults = append(faults, errors.New("--again and --rate are about --embed: add it, or leave them out"))
	}
	return errors.Join(faults...)
}

// Run imports the file.
func (c *importCmd) Run(a *app) (err error) {
	in, err := terminal.OpenInput(c.File, a.in)
	if err != nil {
		return fmt.Errorf("%w (name an NDJSON file, plain or gzip, or - for standard input)", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	bar := a.progress("importing "+in.Name, in.Size, in.Read)
	im := products.Import{Store: store, Dimensions: a.config.Taste.Dimensions, Stored: bar.At}
	var way *embedding.Embedding
	if c.Embed {
		if way, err = embedding.New(a.vectors, a.config.Taste.Dimensions, float64(c.Rate), a.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, way.Close()) }()
		im.Embedder = way.Embedder
		if !c.Again {
			im.Known = store
		}
	}
	done, err := im.All(a.ctx, catalog.ReadProducts(in.Lines))
	bar.Done()
	if err != nil {
		err = fmt.Errorf("%s: %w (%d products were stored; the same command goes on where it stopped)", in.Name, err, done.Stored)
		if !a.json {
			return err
		}
	}
	return errors.Join(err, c.print(a, done, way))
}

// print says what was done, and what it cost.
func (c *importCmd) print(a *app, done products.Imported, way *embedding.Embedding) error {
	var tokens int64
	if way != nil && way.API != nil {
		tokens = way.API.Stats().Tokens.Load()
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(struct {
			products.Imported
			Tokens int64 `json:"tokens"`
		}{done, tokens})
	}
	fmt.Fprintf(a.stdout, "%s products imported", terminal.Number(int64(done.Stored)))
	if done.Known > 0 {
		fmt.Fprintf(a.stdout, ", %s of them with the vector the store had (--again makes them anew)", terminal.Number(int64(done.Known)))
	}
	if tokens > 0 {
		fmt.Fprintf(a.stdout, "; %s tokens", terminal.Number(tokens))
	}
	fmt.Fprintln(a.stdout)
	return nil
}
