package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"keyfold/cmd/cli"
	"keyfold/cmd/products"
	"keyfold/engine"
	"keyfold/sink/sqlite"
	"keyfold/source/catalog"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

type productsCmd struct {
	Import importCmd `cmd:"" help:"Import products from NDJSON: product_id, product_name, category, embedding."`
}

// importCmd imports a catalogue.
type importCmd struct {
	File  string `arg:"" help:"NDJSON, plain or gzip; - for stdin."`
	Embed bool   `help:"Embed products that have no vector from their name and category."`
}

// Run imports the file.
func (c *importCmd) Run(a *app) (err error) {
	if err := os.MkdirAll(a.data, 0o750); err != nil {
		return err
	}
	file, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := importFile(a, file, c.File, c.Embed)
	if err == nil && !a.JSON {
		fmt.Fprintf(a.Stdout, "%s products imported\n", cli.Number(int64(n)))
	}
	return err
}

// openStore opens the file of the data folder for writing.
func openStore(a *app) (*sqlite.File, error) {
	return sqlite.Open(filepath.Join(a.data, databaseName), sqlite.Settings{
		Dimensions: a.config.Taste.Dimensions,
		History:    a.config.Taste.History,
		Model:      a.config.Taste.Model,
	})
}

func importFile(a *app, file *sqlite.File, path string, embed bool) (int, error) {
	in, err := cli.OpenInput(path, a.Stdin)
	if err != nil {
		return 0, err
	}
	bar := a.Progress("importing "+in.Name, in.Size, in.Read)
	n, err := importAll(a, file, catalog.ReadProducts(in.Lines), bar, embed)
	if err != nil {
		err = fmt.Errorf("%s: %w", in.Name, err)
	}
	return n, errors.Join(err, in.Close())
}

func importAll(a *app, file *sqlite.File, all iter.Seq2[engine.Product, error], bar *cli.Progress, embed bool) (int, error) {
	hash, err := vector.NewHash(a.config.Taste.Dimensions)
	if err != nil {
		return 0, err
	}
	defer bar.Done()
	im := products.Import{Store: file, Known: file, Dimensions: hash.Dimensions(), Stored: bar.At}
	if embed {
		im.Embedder = hash
	}
	done, err := im.All(a.ctx, all)
	return done.Stored, err
}

// sampleProducts is the sample shop's catalogue as a file would give it.
func sampleProducts() iter.Seq2[engine.Product, error] {
	return func(yield func(engine.Product, error) bool) {
		for _, p := range sample.Products() {
			if !yield(p, nil) {
				return
			}
		}
	}
}
