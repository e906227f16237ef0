package profiles

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/cmd/evaluate"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/products"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
)

// learnCmd learns vectors of products from the history.
type learnCmd struct {
	Into               string      `required:"" placeholder:"DATABASE" help:"Database in MongoDB that the catalogue is written to; it has none yet. MONGODB_DATABASE is only read."`
	Since              cli.Instant `placeholder:"180d" help:"Only events that occurred since then."`
	evaluate.Learnable `embed:""`
}

// Help is the long text.
func (c *learnCmd) Help() string {
	return `Products that users turn to in one session come to lie near each other: such vectors are learned from the history in
DATABASE_URL, and each product is written into another database with the vector of its text and the learned one behind it.
A product without events keeps the one of its text, and so does a search phrase: both are found as before. The answer
ends with the settings and commands to go on with. What runs now is not touched.

keyfold eval --vectors learned says beforehand whether it pays.

The catalogue becomes visible when it is whole. A run that was killed is run again: the same history and settings give
the same vectors and the same name. Of a session the first 200 products count. WORKER_MEMORY_LIMIT bounds the memory:
where there are more pairs of products than it has room for, those that were seen least are dropped, and counted.

Examples:
  keyfold products learn --into keyfold_learned
  keyfold products learn --into keyfold_learned --share 0.25 --since 180d
  WORKER_MEMORY_LIMIT=2G keyfold products learn --into keyfold_learned`
}

// Check judges the flags and the settings.
func (c *learnCmd) Check(a *app.App) error {
	var same error
	if strings.EqualFold(c.Into, a.Servers.Database) { // the server takes no two names that differ in case
		same = fmt.Errorf("--into %s is MONGODB_DATABASE, which is only read: name another one", c.Into)
	}
	store := a.CheckStore()
	if store == nil {
		store = c.into(a).CheckStore() // only the name of the database is another
	}
	return errors.Join(c.CheckLearnable(), same, a.CheckDatabase(), store, a.CheckDimensions(c.Components))
}

// into is the application as it will be with what is learned.
func (c *learnCmd) into(a *app.App) *app.App {
	of := *a
	of.Servers.Database = c.Into
	of.Config.Processor.Dimensions = a.Config.TextDimensions() + c.Components
	return &of
}

// Run learns.
func (c *learnCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		return a.WithStore(func(from *mongodb.Store) error {
			return c.into(a).WithStore(func(to *mongodb.Store) error { return c.learn(a, db, from, to) })
		})
	})
}

// learnt is what was done.
type learnt struct {
	products.Counts
	products.Written
	Database   string   `json:"database"`
	Model      string   `json:"model"`
	Dimensions int      `json:"dimensions"`
	Setting    string   `json:"setting"` // EMBEDDING_LEARNED
	Already    bool     `json:"already"` // the database had this catalogue
	Seconds    float64  `json:"seconds"`
	Settings   []string `json:"settings"`
	Commands   []string `json:"commands"`
}

func (c *learnCmd) learn(a *app.App, db *outbox.Database, from, to *mongodb.Store) error {
	began := time.Now()
	stored, there, err := to.CatalogueModel(a.Ctx)
	if err != nil {
		return err
	}
	if there && profile.LearnedIn(stored).Components == 0 {
		return c.occupied(stored)
	}
	since := engine.Millis(0)
	if !c.Since.IsZero() {
		since = engine.MillisOf(c.Since.Time)
	}
	watch := evaluate.Watch(&a.Console)
	learning := c.Learning(a.Vectors.TextModel(), a.Config, watch.At)
	lesson, err := learning.Learn(a.Ctx, from.ProductTimes(a.Ctx), db.Interactions(a.Ctx, since))
	watch.Done()
	if err != nil {
		return err
	}
	done := learnt{
		Counts: lesson.Counts, Database: c.Into, Model: lesson.Model(), Dimensions: lesson.Dimensions(), Setting: lesson.Setting().String(), Already: there,
	}
	if there && stored != done.Model {
		return c.occupied(stored)
	}
	if there {
		err = to.Unstage(a.Ctx)
	} else {
		catalogue := products.Texts(from.AllProducts(a.Ctx), learning.TextModel, learning.TextDimensions, a.Config.Learned)
		err = c.write(a.Ctx, lesson, catalogue, to, &done)
		watch.Done()
	}
	if err != nil {
		return err
	}
	done.Seconds = time.Since(began).Seconds()
	done.goOn(a)
	return a.Emit(&done, func(w *cli.Text) { done.print(w, c.Share) })
}

// occupied says that a catalogue is in the way.
func (c *learnCmd) occupied(model string) error {
	what := "an empty catalogue"
	if model != "" {
		what = "a catalogue of the model " + model
	}
	return fmt.Errorf("the database %s has %s, which may be in use: name another one with --into", c.Into, what)
}

// write writes the catalogue beside everything, and makes it the database's when it is whole.
func (c *learnCmd) write(ctx context.Context, lesson *products.Lesson, catalogue iter.Seq2[profile.Product, error], to *mongodb.Store, done *learnt) error {
	err := to.Stage(ctx, strings.ReplaceAll(uuid.NewString(), "-", ""))
	if err == nil {
		done.Written, err = lesson.Write(ctx, catalogue, to)
	}
	if err == nil {
		err = to.Promote(ctx)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, to.Unstage(context.WithoutCancel(ctx)))
	if !errors.Is(err, mongodb.ErrCatalogueThere) {
		return fmt.Errorf("%w\nno catalogue was changed; run it again", err)
	}
	stored, _, looked := to.CatalogueModel(ctx)
	if looked != nil || stored != lesson.Model() {
		return errors.Join(c.occupied(stored), looked)
	}
	done.Already, done.Written = true, products.Written{} // another run was faster, with the same
	return nil
}

// goOn fills in what to go on with.
func (l *learnt) goOn(a *app.App) {
	l.Settings = []string{
		"MONGODB_DATABASE=" + l.Database, fmt.Sprintf("EMBEDDING_DIMENSIONS=%d", l.Dimensions), "EMBEDDING_LEARNED=" + l.Setting,
	}
	l.Commands = []string{"keyfold setup", "keyfold user rebuild --all", "keyfold work", "keyfold user rebuild --all", "keyfold serve"}
	if a.Queues.Streams > 0 { // see docs/howto/streams.md
		l.Commands = []string{"keyfold setup", "keyfold work --rebuild"}
	}
}

func (l *learnt) print(w *cli.Text, share float64) {
	w.Line("%s of %s, %s; %s of %s have learned vectors", cli.Count(int64(l.Events), "event"), cli.Count(int64(l.Users), "user"),
		cli.Count(int64(l.Sessions), "session"), cli.Number(int64(l.Learned)), cli.Count(int64(l.Counts.Products), "product"))
	evaluate.PrintDropped(w, l.Counts)
	if l.Already {
		w.Line("the database %s has this catalogue already: nothing was written", l.Database)
	} else {
		evaluate.PrintWritten(w, l.Written, "the database "+l.Database)
	}
	w.Line("model %s, share %v", l.Model, share)
	w.Line("")
	w.Line("To go on with it, while what runs now goes on:")
	w.Line("  export %s", strings.Join(l.Settings, " "))
	for _, command := range l.Commands {
		w.Line("  %s", command)
	}
}
