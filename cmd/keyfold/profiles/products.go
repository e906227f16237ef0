package profiles

import (
	"errors"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/products"

	"keyfold/cmd/keyfold/app"

	"keyfold/sink/mongodb"
	"keyfold/source/catalog"
)

// ProductsCmd looks after the product catalogue.
type ProductsCmd struct {
	Import importCmd `cmd:"" uses:"embedding" help:"Import products from NDJSON: product_id, product_name, category, embedding."`
	Learn  learnCmd  `cmd:"" uses:"database" help:"Learn vectors of products from the history of events, into another database."`
}

// importCmd imports a catalogue.
type importCmd struct {
	File    string   `arg:"" help:"NDJSON, plain or gzip; - for stdin."`
	Embed   bool     `help:"Embed products that have no vector from their name and category."`
	SkipBad bool     `name:"skip-bad" help:"Leave out bad products, name them on standard error, and import the others."`
	Rate    cli.Rate `name:"rate" placeholder:"N/s" help:"Embedding requests a second at most."`
	Again   bool     `help:"With --embed: embed every product again, even if the store has its vector."`
}

func (c *importCmd) Check(a *app.App) error {
	faults := []error{a.CheckStore()}
	switch {
	case c.Embed:
		faults = append(faults, a.Vectors.Usable())
	case c.Again || c.Rate > 0:
		faults = append(faults, errors.New("--again and --rate are about --embed: add it, or leave them out"))
	}
	return errors.Join(faults...)
}

// Run imports the file.
func (c *importCmd) Run(a *app.App) (err error) {
	in, err := cli.OpenInput(c.File, a.Stdin)
	if err != nil {
		return fmt.Errorf("%w (name an NDJSON file, plain or gzip, or - for standard input)", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return a.WithStore(func(store *mongodb.Store) error {
		im := products.Import{Store: store, Dimensions: a.Config.Processor.Dimensions}
		if !c.Embed {
			return c.all(a, in, im, nil)
		}
		return a.WithEmbedding(a.Vectors, float64(c.Rate), func(way *embedding.Embedding) error {
			im.Embedder = way.Embedder
			if !c.Again {
				im.Known = store
			}
			return c.all(a, in, im, way)
		})
	})
}

func (c *importCmd) all(a *app.App, in *cli.Input, im products.Import, way *embedding.Embedding) error {
	bar := a.Progress("importing "+in.Name, in.Size, in.Read)
	im.Stored, im.SkipBad = bar.At, c.SkipBad
	done, err := im.All(a.Ctx, catalog.ReadProducts(in.Lines))
	bar.Done()
	fmt.Fprint(a.Stderr, im.Warning(done))
	if err != nil {
		err = fmt.Errorf("%s: %w\n%d products were stored; the same command goes on where it stopped", in.Name, err, done.Stored)
		if !a.JSON {
			return err
		}
	}
	return errors.Join(err, c.print(a, done, way))
}

// print says what was done, and what it cost.
func (c *importCmd) print(a *app.App, done products.Imported, way *embedding.Embedding) error {
	var tokens int64
	if way != nil && way.API != nil {
		tokens = way.API.Stats().Tokens.Load()
	}
	report := struct {
		products.Imported
		Tokens int64 `json:"tokens"`
	}{done, tokens}
	return a.Emit(report, func(w *cli.Text) {
		text := cli.Count(int64(done.Stored), "product") + " imported"
		if done.Known > 0 {
			text += fmt.Sprintf(", %s of them with the vector the store had (--again makes them anew)", cli.Number(int64(done.Known)))
		}
		if tokens > 0 {
			text += fmt.Sprintf("; %s tokens", cli.Number(tokens))
		}
		w.Line("%s", text)
	})
}
