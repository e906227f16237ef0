package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

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
	File  string `arg:"" help:"NDJSON, plain or gzip; - is standard input."`
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
	n, err := importFile(a.ctx, a, file, c.File, c.Embed)
	if err == nil && !a.json {
		fmt.Fprintf(a.out, "%s products imported\n", number(int64(n)))
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

func importFile(ctx context.Context, a *app, file *sqlite.File, path string, embed bool) (int, error) {
	in, err := openInput(path, a.in)
	if err != nil {
		return 0, err
	}
	bar := newProgress(a, "importing "+in.name, in.size, in.read.Load)
	n, err := importAll(ctx, a, file, catalog.ReadProducts(in.lines), bar, embed)
	if err != nil {
		err = fmt.Errorf("%s: %w", in.name, err)
	}
	return n, errors.Join(err, in.close())
}

// importChunk is how many products share a transaction.
const importChunk = 500

// importAll embeds and stores products, chunk by chunk: what was stored before a
// fault stays.
func importAll(ctx context.Context, a *app, file *sqlite.File, products iter.Seq2[engine.Product, error], bar *progress, embed bool) (stored int, err error) {
	hash, err := vector.NewHash(a.config.Taste.Dimensions)
	if err != nil {
		return 0, err
	}
	im := importer{file: file, hash: hash, embed: embed}
	defer bar.done()
	for p, err := range products {
		if err != nil {
			return im.stored, errors.Join(err, im.flush(ctx))
		}
		if err := im.add(ctx, p); err != nil {
			return im.stored, err
		}
		bar.at(im.stored)
	}
	return im.stored, im.flush(ctx)
}

type importer struct {
	file   *sqlite.File
	hash   *vector.Hash
	embed  bool
	chunk  []engine.Product
	stored int
}

func (im *importer) add(ctx context.Context, p engine.Product) error {
	switch {
	case p.Vector == nil && !im.embed:
		return fmt.Errorf("product %d has no embedding: add --embed to make one from its name and category", p.ID)
	case p.Vector == nil:
		vectors, err := im.hash.Embed(ctx, []string{catalog.EmbedText(p)})
		if err != nil {
			return err
		}
		p.Vector, p.Model = vectors[0], im.hash.Model()
	}
	if _, err := engine.Unit(p.Vector, im.hash.Dimensions()); err != nil {
		return fmt.Errorf("product %d: %w", p.ID, err)
	}
	im.chunk = append(im.chunk, p)
	if len(im.chunk) < importChunk {
		return nil
	}
	return im.flush(ctx)
}

func (im *importer) flush(ctx context.Context) error {
	if len(im.chunk) == 0 {
		return nil
	}
	if err := im.file.PutProducts(ctx, im.chunk, engine.Now()); err != nil {
		return err
	}
	im.stored += len(im.chunk)
	im.chunk = im.chunk[:0]
	return nil
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
