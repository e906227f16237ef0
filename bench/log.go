package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/source/sample"
)

// logFlag names a log that events are taken from.
type logFlag struct {
	Events string `name:"events" placeholder:"FILE" help:"Your own log in place of the sample's events: NDJSON, plain or gzip, as keyfold-lite reads it; - for stdin. Its ids are replaced, and its products have made-up names."`
}

// bodies returns the events of the log, or those that generate makes, and the products they are of.
func (f logFlag) bodies(r *report.Report, generate func() [][]byte) ([][]byte, []profile.Product, error) {
	if f.Events == "" {
		return generate(), sample.Products(), nil
	}
	in, err := cli.OpenInput(f.Events, os.Stdin)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	bodies, products, refused, err := readLog(in)
	switch {
	case err != nil:
		return nil, nil, err
	case len(bodies) == 0:
		return nil, nil, fmt.Errorf("%s has no event", in.Name)
	case refused > 0:
		r.Note("%s: %s left out, as no event can be read", in.Name, cli.Count(int64(refused), "line"))
	}
	return bodies, products, nil
}

func readLog(in *cli.Input) (bodies [][]byte, products []profile.Product, refused int, err error) {
	met, now := map[int32]bool{0: true}, time.Now()
	for {
		body, err := in.Next()
		if errors.Is(err, io.EOF) {
			return bodies, products, refused, nil
		}
		if err != nil {
			return nil, nil, 0, err
		}
		e, err := profile.ParseEvent(body, now)
		if err != nil {
			refused++
			continue
		}
		bodies = append(bodies, body)
		if !met[e.ProductID] {
			met[e.ProductID] = true
			products = append(products, profile.Product{ID: e.ProductID, Name: fmt.Sprint("product ", e.ProductID), Category: "log"})
		}
	}
}
