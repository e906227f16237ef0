package profiles

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"keyfold/cmd/evaluate"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/evaluation"
	"keyfold/service/profile/products"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
)

// EvalCmd asks the stored history what profiles are worth.
type EvalCmd struct {
	Since          cli.Instant `placeholder:"60d" help:"Only events that occurred since then."`
	Vectors        string      `enum:"stored,learned,cooc,knn" default:"stored" help:"stored: those of products and phrases; learned: the same, joined to vectors learned from the sessions of the warm-up, as products learn makes them; cooc: learned ones alone; knn: none, item kNN."`
	Searches       bool        `default:"true" negatable:"" help:"Embed the search phrases of the history, too: those that no cache holds cost requests."`
	evaluate.Flags `embed:""`
}

// Help is the long text.
func (c *EvalCmd) Help() string {
	return `It asks, for each product that a user turns to and had not met before: how near the front of all products does the
profile put it that keyfold would have had by then? The events are those of DATABASE_URL, which may be a replica: the
history is read in pages, without a lock. Nothing is stored. Product vectors that were trained on the shop's own events
may know what is asked; those of texts do not.

Settings are chosen by one part of the history and judged by a later one; a change is recommended only where 95 of 100
draws of the users agree and the gain is 2 % or more.

Examples:
  keyfold eval --since 60d
  keyfold eval --since 60d --html eval.html
  keyfold eval --vectors learned --targets product_purchase     whether products learn would pay`
}

// Check judges the flags and the settings.
func (c *EvalCmd) Check(a *app.App) error {
	return errors.Join(c.CheckFlags(), a.CheckDatabase(), a.CheckStore(), a.Vectors.Usable())
}

// Run evaluates.
func (c *EvalCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		return a.WithStore(func(store *mongodb.Store) error {
			return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error { return c.evaluate(a, db, store, way) })
		})
	})
}

func (c *EvalCmd) evaluate(a *app.App, db *outbox.Database, store *mongodb.Store, way *embedding.Embedding) error {
	laws, catalogue := a.Config.Processor.Config, store.AllProducts(a.Ctx)
	if c.Vectors == evaluation.Hybrid { // what is learned anew joins the texts alone
		laws.Model, laws.Dimensions = a.Vectors.TextModel(), a.Config.TextDimensions()
		catalogue = products.Texts(catalogue, laws.Model, laws.Dimensions, a.Config.Learned)
	}
	in := evaluation.Input{
		Model: laws.Model, Sparse: a.Vectors.Offline, Laws: laws, Windows: evaluate.Windows(a.Config.Shard), Products: map[int32]profile.Product{},
	}
	for p, err := range catalogue {
		if err != nil {
			return err
		}
		if !c.stored() || p.Model != "" && p.Model != laws.Model {
			p.Vector = nil // another model's cannot be compared
		}
		in.Products[p.ID] = p
	}
	if len(in.Products) == 0 {
		return fmt.Errorf("the database %s has no product: import the catalogue with `keyfold products import`", a.Servers.Database)
	}
	if err := c.readHistory(a, db, &in); err != nil {
		return err
	}
	phrases := patientPhrases{way, a.Log}
	in.Vectors = func(ctx context.Context, things []eval.Thing) ([][]float32, error) {
		return c.vectors(ctx, in, phrases, things)
	}
	return c.Evaluate(a.Ctx, &a.Console, in, c.Vectors, a.Vectors.Offline && c.stored())
}

// stored reports whether the vectors of products and phrases are used.
func (c *EvalCmd) stored() bool { return c.Vectors == "stored" || c.Vectors == evaluation.Hybrid }

// readHistory reads the events, and counts the rows that hold none.
func (c *EvalCmd) readHistory(a *app.App, db *outbox.Database, in *evaluation.Input) error {
	filter := outbox.Filter{}
	if !c.Since.IsZero() {
		filter.From = engine.MillisOf(c.Since.Time)
	}
	bar := a.Progress("reading the history", 0, nil)
	defer bar.Done()
	for row, err := range db.History(a.Ctx, filter, outbox.Position{}) {
		switch {
		case engine.KindOf(err) == engine.Permanent:
			in.Refused++
		case err != nil:
			return err
		default:
			in.Events = append(in.Events, row.Event)
			bar.At(len(in.Events))
		}
	}
	return nil
}

// phraseChunk is how many phrases are asked for at once.
const phraseChunk = 1000

// vectors returns those of the products, and of the phrases where they are wanted. A phrase
// that cannot be embedded has none, as a worker would dead-letter its event.
func (c *EvalCmd) vectors(ctx context.Context, in evaluation.Input, phrases patientPhrases, things []eval.Thing) ([][]float32, error) {
	all := make([][]float32, len(things))
	var texts []string
	var at []int
	for i, thing := range things {
		if thing.Product != 0 {
			all[i] = in.Products[thing.Product].Vector
		} else if c.Searches {
			texts, at = append(texts, thing.Phrase), append(at, i)
		}
	}
	for chunk := range slices.Chunk(texts, phraseChunk) {
		for k, r := range phrases.Resolve(ctx, chunk) {
			if r.Err != nil && engine.KindOf(r.Err) != engine.Permanent {
				return nil, fmt.Errorf("the phrase %q: %w (--no-searches evaluates without the searches)", chunk[k], r.Err)
			}
			all[at[k]] = narrow(r.Vector[:min(len(r.Vector), in.Laws.Dimensions)])
		}
		at = at[len(chunk):]
	}
	return all, ctx.Err()
}

// narrow rounds a vector to float32; nil stays nil.
func narrow(v []float64) (short []float32) {
	for _, x := range v {
		short = append(short, float32(x))
	}
	return short
}
