package main

import (
	"context"
	"errors"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/answers"
	"keyfold/service/profile/evaluation"
	"keyfold/sink/memory"

	"keyfold/cmd/evaluate"
)

// evalEndpointCmd has the HTTP API answer what a log asks.
type evalEndpointCmd struct {
	Events   string        `name:"events" required:"" placeholder:"FILE" help:"NDJSON events, plain or gzip; - for stdin."`
	Products string        `name:"products" required:"" placeholder:"FILE" help:"NDJSON products."`
	Vectors  string        `enum:"hash,stored" default:"hash" help:"hash: of names and phrases, offline; stored: the products' own, without searches."`
	Ask      []string      `sep:"none" placeholder:"PARAMETERS" help:"Parameters of the requests, such as mix=0.7; repeat it to compare several. Without it: none."`
	Targets  cli.EventType `help:"Ask only for products of events of this type."`
	K        int           `name:"k" default:"10" help:"How many products are asked for."`
	WarmUp   float64       `name:"warm-up" default:"0.6" help:"Share of the events that are asked nothing: candidates come from them."`
	Age      time.Duration `default:"15s" help:"Age of the newest event in a profile."`
	Users    float64       `default:"0" help:"Share of the users to ask, such as 0.2; the same users each time. 0: all, or as many as two minutes are enough for; 1: all."`
}

// Help is the long text.
func (c *evalEndpointCmd) Help() string {
	return `The log is replayed in the order of time, in memory. For each product that a user turns to and had not met before, the API
of recommendations is asked just before, over HTTP on this machine: GET /v1/users/ID/recommendations?k=10&exclude=seen. The
user's profile holds the events that are older by --age, folded as a worker folds them. The catalogue has the products of
the warm-up. Popularity, the last product and item kNN answer the same questions. Intervals are of 95 of 100 draws of the
users. The settings of profiles, such as EMBEDDING_SHORT_HALF_LIFE, are those of a worker. Nothing is stored.

Examples:
  keyfold-lite eval-endpoint --events log.ndjson.gz --products shop.ndjson
  keyfold-lite eval-endpoint --events log.ndjson.gz --products shop.ndjson --targets product_purchase
  keyfold-lite eval-endpoint --events log.ndjson.gz --products shop.ndjson --short-half-life 1m --ask mix=0.5 --ask mix=1`
}

// Check judges the flags.
func (c *evalEndpointCmd) Check(*app) error {
	_, target := evaluate.Target(c.Targets)
	return errors.Join(target, c.options().Validate())
}

func (c *evalEndpointCmd) options() answers.Options {
	asks := c.Ask
	if len(asks) == 0 {
		asks = []string{""}
	}
	target, _ := evaluate.Target(c.Targets) // judged by [evalEndpointCmd.Check]
	return answers.Options{WarmUp: c.WarmUp, Targets: target, Users: c.Users, Age: c.Age, K: c.K, Asks: asks}
}

// Run asks and prints.
func (c *evalEndpointCmd) Run(a *app) error {
	in, err := c.input(a)
	if err != nil {
		return err
	}
	var bar *cli.Progress
	in.OnProgress = func(answered, questions int) {
		if bar == nil {
			bar = a.Progress("asking", int64(questions), nil)
		}
		bar.At(answered)
	}
	report, err := answers.Evaluate(a.ctx, *in, c.options())
	if bar != nil {
		bar.Done()
	}
	if a.ctx.Err() != nil {
		return errors.New("interrupted: eval-endpoint stores nothing")
	}
	if err != nil {
		return err
	}
	return a.Emit(report, func(w *cli.Text) { printAnswers(w, report) })
}

// input reads the files and makes the vectors.
func (c *evalEndpointCmd) input(a *app) (*answers.Input, error) {
	read := evaluation.Input{Model: a.config.Processor.Model, Laws: a.config.Processor.Config, Products: map[int32]profile.Product{}}
	files := evalCmd{Events: c.Events, Products: c.Products, Vectors: c.Vectors}
	if err := errors.Join(files.readProducts(a, &read), files.readEvents(a, &read)); err != nil {
		return nil, err
	}
	in := &answers.Input{
		Events: read.Events, Refused: read.Refused, Products: read.Products, Phrases: noPhrases{},
		Vectors: read.Model, Sparse: c.Vectors == "hash", Laws: a.config.Processor,
	}
	in.Laws.Dimensions = read.Laws.Dimensions
	in.Store = memory.New(in.Laws.Dimensions)
	if c.Vectors == "stored" {
		in.Laws.Model = c.Vectors
		for id, p := range in.Products {
			p.Model = in.Laws.Model // readProducts has seen that it is one
			in.Products[id] = p
		}
		return in, nil
	}
	phrases, err := offlinePhrases(in.Laws.Config)
	if err != nil {
		return nil, err
	}
	in.Phrases = phrases
	return in, embedNames(a.ctx, &files, &read)
}

// embedNames gives each product the vector of its name.
func embedNames(ctx context.Context, files *evalCmd, in *evaluation.Input) error {
	things := make([]eval.Thing, 0, len(in.Products))
	for id := range in.Products {
		things = append(things, eval.Thing{Product: id})
	}
	vectors, err := files.vectors(in)(ctx, things)
	if err != nil {
		return err
	}
	for i, thing := range things {
		p := in.Products[thing.Product]
		p.Vector, p.Model = vectors[i], in.Model
		in.Products[thing.Product] = p
	}
	return nil
}

// noPhrases knows no vector of a phrase: products that bring their own say nothing of words.
type noPhrases struct{}

// Resolve implements [engine.Vectors].
func (noPhrases) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	all := make([]engine.Resolved, len(phrases))
	for i := range all {
		all[i].Err = engine.PermanentError("no_phrases", errors.New("the products' vectors are of a model that is not at hand"))
	}
	return all
}
