package api

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"keyfold/service/profile/recommend"
)

// query is a URL's parameters, each given once. Faults are gathered.
type query struct {
	values url.Values
	faults []error
}

// readQuery refuses parameters that are not known: a misspelt one would quietly change the
// answer.
func readQuery(u *url.URL, known ...string) (*query, error) {
	values, err := url.ParseQuery(u.RawQuery)
	q := &query{values: values}
	if err != nil {
		return q, errors.New("the query cannot be read: escape its values")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name):
			q.fault("%.40q is no parameter here: known are %s", name, strings.Join(known, ", "))
		case len(values[name]) > 1:
			q.fault("%s is given %d times: give it once", name, len(values[name]))
		}
	}
	return q, nil
}

func (q *query) fault(format string, args ...any) {
	q.faults = append(q.faults, fmt.Errorf(format, args...))
}

func (q *query) err() error { return errors.Join(q.faults...) }

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) number(name string, otherwise float64) float64 {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		q.fault("%s is %.40q: it must be a number", name, text)
	}
	return x
}

// mix reads the share, which no one gives as the word for the configured one.
func (q *query) mix(otherwise float64) float64 {
	mix := q.number("mix", otherwise)
	if q.text("mix") != "" && mix < 0 {
		q.fault("mix is %v: it must be between 0 and 1", mix)
	}
	return mix
}

func (q *query) flag(name string) bool {
	text := q.text(name)
	if text == "" {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		q.fault("%s is %.40q: it must be true or false", name, text)
	}
	return on
}

// options reads what all answers with products have.
func (q *query) options() recommend.Options {
	o := recommend.DefaultOptions()
	if text := q.text("k"); text != "" {
		k, err := strconv.Atoi(text)
		if err != nil {
			q.fault("k is %.40q: it must be a whole number", text)
			k = o.K
		}
		o.K = k
	}
	o.Category = q.text("category")
	o.Diversity = q.number("diversity", o.Diversity)
	return o
}
