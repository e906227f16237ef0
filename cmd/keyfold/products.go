package main

import (
	"errors"
	"fmt"

	"keyfold/cmd/products"
	"keyfold/cmd/terminal"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

type productsCmd struct {
	Import importCmd `cmd:"" help:"Import products from NDJSON: product_id, product_name, category, embedding."`
}

// importCmd imports a catalogue.
type importCmd struct {
	File  string `arg:"" help:"NDJSON, plain or gzip; - is standard input."`
	Embed bool   `help:"Embed products that have no vector from their name and category, offline."`
}

// Run imports the file.
func (c *importCmd) Run(a *app) (err error) {
	in, err := terminal.OpenInput(c.File, a.in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	bar := a.progress("importing "+in.Name, in.Size, in.Read)
	im := products.Import{Store: store, Dimensions: a.config.Taste.Dimensions, Stored: bar.At}
	if c.Embed {
		if im.Embedder, err = vector.NewHash(a.config.Taste.Dimensions); err != nil {
			return err
		}
	}
	n, err := im.All(a.ctx, catalog.ReadProducts(in.Lines))
	bar.Done()
	if err != nil {
		return fmt.Errorf("%s: %w (%d products were stored)", in.Name, err, n)
	}
	fmt.Fprintf(a.out, "%s products imported\n", terminal.Number(int64(n)))
	return nil
}
