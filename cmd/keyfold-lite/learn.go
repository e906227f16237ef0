package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"keyfold/cmd/evaluate"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/products"
	"keyfold/sink/sqlite"
)

// learnCmd learns vectors of products from the stored events.
type learnCmd struct {
	Into               string `required:"" placeholder:"DIR" help:"Data folder that is made: the catalogue, and all events, still to be folded. The folder of --data is only read."`
	evaluate.Learnable `embed:""`
}

// Help is the long text.
func (c *learnCmd) Help() string {
	return `Products that users turn to in one session come to lie near each other: such vectors are learned from the stored
events, and each product is written into another data folder with the vector of its text and the learned one behind it.
A product without events keeps the one of its text, and so does a search phrase: both are found as before. The events
are copied; the first start there folds them. No keyfold-lite may be running on either folder.

keyfold-lite eval --vectors learned says beforehand whether it pays.

The new folder's file is there when it is whole. A run that was killed is run again: the same events and settings give
the same vectors and the same name. Of a session the first 200 products count.

Example:
  keyfold-lite products learn --into keyfold-learned`
}

// Check judges the flags.
func (c *learnCmd) Check(a *app) error {
	var faults engine.Faults
	all := a.config.TextDimensions() + c.Components
	faults.If(all > profile.MaxDimensions, "%d learned components make %d of each vector, at most %d can be used", c.Components, all, profile.MaxDimensions)
	return errors.Join(c.CheckLearnable(), faults.Err())
}

// learnt is what was done.
type learnt struct {
	products.Counts
	products.Written
	Folder     string   `json:"folder"`
	Model      string   `json:"model"`
	Dimensions int      `json:"dimensions"`
	Setting    string   `json:"setting"` // EMBEDDING_LEARNED
	Copied     int      `json:"copied"`  // events
	Already    bool     `json:"already"` // the folder had this catalogue
	Settings   []string `json:"settings"`
	Commands   []string `json:"commands"`
}

// Run learns, with both folders to itself.
func (c *learnCmd) Run(a *app) (err error) {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.MkdirAll(c.Into, 0o750); err != nil {
		return err
	}
	if err := c.checkFolder(a); err != nil {
		return err
	}
	for _, folder := range []string{a.data, c.Into} {
		unlock, err := lockFolder(folder)
		if err != nil {
			return err
		}
		defer unlock()
	}
	done, err := c.learn(a, file)
	if err != nil {
		return err
	}
	done.Settings = []string{"KEYFOLD_DATA=" + c.Into, fmt.Sprintf("EMBEDDING_DIMENSIONS=%d", done.Dimensions), "EMBEDDING_LEARNED=" + done.Setting}
	done.Commands = []string{"keyfold-lite serve"}
	return a.Emit(done, func(w *cli.Text) { done.print(w, c.Share) })
}

// checkFolder refuses the folder that is read.
func (c *learnCmd) checkFolder(a *app) error {
	read, err := os.Stat(a.data)
	if err != nil {
		return err
	}
	into, err := os.Stat(c.Into)
	if err == nil && os.SameFile(read, into) {
		err = fmt.Errorf("--into %s is the folder that is read: name another one", c.Into)
	}
	return err
}

func (c *learnCmd) learn(a *app, file *sqlite.Reader) (*learnt, error) {
	events, err := openStoredEvents(a, file)
	if err != nil {
		return nil, err
	}
	defer events.close()
	stored, err := c.stored()
	if err != nil {
		return nil, err
	}
	watch := evaluate.Watch(&a.Console)
	defer watch.Done()
	learning := c.Learning(embedderModel, a.config, watch.At)
	lesson, err := learning.Learn(a.ctx, file.ProductTimes(a.ctx), events.interactions(a.ctx))
	if err != nil {
		return nil, err
	}
	done := &learnt{
		Counts: lesson.Counts, Folder: c.Into, Model: lesson.Model(), Dimensions: lesson.Dimensions(), Setting: lesson.Setting().String(), Already: stored != "",
	}
	switch stored {
	case "":
		return done, c.write(a, file, lesson, events, done)
	case done.Model:
		return done, nil
	}
	return nil, c.occupied(stored)
}

// stored returns the model of the new folder's file, "" where there is none.
func (c *learnCmd) stored() (string, error) {
	path := filepath.Join(c.Into, databaseName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	file, err := sqlite.OpenReader(path)
	if err != nil {
		return "", err
	}
	model := file.Settings().Model
	if err := file.Close(); err != nil || profile.LearnedIn(model).Components > 0 {
		return model, err
	}
	return "", c.occupied(model)
}

// occupied says that a file is in the way.
func (c *learnCmd) occupied(model string) error {
	return fmt.Errorf("the folder %s has profiles of the model %s: name another one with --into", c.Into, model)
}

func (l *learnt) print(w *cli.Text, share float64) {
	w.Line("%s of %s, %s; %s of %s have learned vectors", cli.Count(int64(l.Events), "event"), cli.Count(int64(l.Users), "user"),
		cli.Count(int64(l.Sessions), "session"), cli.Number(int64(l.Learned)), cli.Count(int64(l.Counts.Products), "product"))
	evaluate.PrintDropped(w, l.Counts)
	if l.Already {
		w.Line("%s has this catalogue already: nothing was written", l.Folder)
	} else {
		evaluate.PrintWritten(w, l.Written, l.Folder)
		w.Line("%s copied, to be folded there", cli.Count(int64(l.Copied), "event"))
	}
	w.Line("model %s, share %v", l.Model, share)
	w.Line("")
	w.Line("To go on with it:")
	w.Line("  export %s", strings.Join(l.Settings, " "))
	for _, command := range l.Commands {
		w.Line("  %s", command)
	}
}
