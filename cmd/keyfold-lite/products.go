package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/service/profile/products"

	"keyfold/sink/sqlite"
	"keyfold/source/catalog"
	"keyfold/source/inbox"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

type productsCmd struct {
	Import importCmd `cmd:"" help:"Import products from NDJSON: product_id, product_name, category, embedding."`
	Learn  learnCmd  `cmd:"" help:"Learn vectors of products from the stored events, into another data folder."`
}

// importCmd imports a catalogue.
type importCmd struct {
	File    string `arg:"" help:"NDJSON, plain or gzip; - for stdin."`
	Embed   bool   `help:"Embed products that have no vector from their name and category."`
	SkipBad bool   `name:"skip-bad" help:"Leave out bad products, name them on standard error, and import the others."`
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
	// The other commands expect the inbox, also where nothing was read yet.
	if err := inbox.Migrate(a.ctx, writer{file}); err != nil {
		return err
	}
	done, err := importFile(a, file, c.File, importOptions{embed: c.Embed, skipBad: c.SkipBad})
	if err != nil {
		return err
	}
	missing, err := missingEvents(a.ctx, file.Reader)
	if err != nil {
		return err
	}
	return a.Emit(done, func(w *cli.Text) {
		w.Line("%s imported", cli.Count(int64(done.Stored), "product"))
		if missing > 0 {
			w.Line("%s skipped earlier because the product was unknown. To fold them: %s rebuild", cli.Count(missing, "stored event"), a.command())
		}
	})
}

// openStore opens the file of the data folder for writing.
func openStore(a *app) (*sqlite.File, error) {
	file, err := sqlite.Open(filepath.Join(a.data, databaseName), sqlite.Settings{
		Dimensions: a.config.Processor.Dimensions,
		History:    a.config.Processor.History,
		Model:      a.config.Processor.Model,

		ShortHalfLife: a.config.Processor.ShortHalfLife,
	})
	return file, settings.Named(&settings.Engine{}, nil, err)
}

// importOptions say what becomes of products that have no vector, and of bad ones.
type importOptions struct{ embed, skipBad bool }

func importFile(a *app, file *sqlite.File, path string, o importOptions) (products.Imported, error) {
	in, err := cli.OpenInput(path, a.Stdin)
	if err != nil {
		return products.Imported{}, err
	}
	bar := a.Progress("importing "+in.Name, in.Size, in.Read)
	done, err := importAll(a, file, catalog.ReadProducts(in.Lines), bar, o)
	if err != nil {
		err = fmt.Errorf("%s: %w", in.Name, err)
	}
	return done, errors.Join(err, in.Close())
}

func importAll(a *app, file *sqlite.File, all iter.Seq2[profile.Product, error], bar *cli.Progress, o importOptions) (products.Imported, error) {
	hash, err := vector.NewHash(a.config.TextDimensions())
	if err != nil {
		return products.Imported{}, settings.Named(&settings.Engine{}, nil, err)
	}
	im := products.Import{Store: file, Known: file, Dimensions: a.config.Processor.Dimensions, Stored: bar.At, SkipBad: o.skipBad}
	if o.embed {
		im.Embedder = vector.Padded(hash, a.config.Learned.Components, a.config.Processor.Model)
	}
	done, err := im.All(a.ctx, all)
	bar.Done()
	fmt.Fprint(a.Stderr, im.Warning(done))
	return done, err
}

// sampleEvents is the events of so many sessions in the sample shop.
func sampleEvents(sessions int) [][]byte { return sample.Events(sample.DefaultConfig(sessions)) }

// sampleProducts is the sample shop's catalogue as a file would give it.
func sampleProducts() iter.Seq2[profile.Product, error] {
	return func(yield func(profile.Product, error) bool) {
		for _, p := range sample.Products() {
			if !yield(p, nil) {
				return
			}
		}
	}
}
