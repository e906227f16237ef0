package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// Join returns one application of several: each request is that one's under whose paths it is,
// else the first one's that knows its path, and the whole is ready where all are. The texts are the first one's.
// Descriptions are joined: of components with one name the first one's stands. It panics
// where one is no JSON. A refusal has the form of the application whose paths begin so.
func Join(first Application, others ...Application) Application {
	all := append([]Application{first}, others...)
	about := first.About()
	joined, titles := map[string]any{}, []string(nil)
	for _, app := range all {
		if app.About().OpenAPI == nil {
			continue
		}
		var description map[string]any
		if err := json.Unmarshal(app.About().OpenAPI, &description); err != nil {
			panic(fmt.Errorf("httpapi: an application's description: %w", err))
		}
		if info, ok := description["info"].(map[string]any); ok {
			titles = append(titles, fmt.Sprint(info["title"]))
		}
		joined = merge(joined, description)
	}
	if info, ok := joined["info"].(map[string]any); ok {
		info["title"] = strings.Join(titles, " and ")
	}
	if len(joined) > 0 { // else none has a description
		about.OpenAPI, _ = json.Marshal(joined)
	}
	about.InWords = inWords(all, about.InWords)
	return &join{all, about}
}

// inWords gives a refusal the form of the application that has the path, else the first one's.
func inWords(all []Application, first func(*http.Request, *Answer) *Answer) func(*http.Request, *Answer) *Answer {
	return func(r *http.Request, a *Answer) *Answer {
		for _, app := range all {
			if about := app.About(); about.InWords != nil && under(app, r.URL.Path) {
				return about.InWords(r, a)
			}
		}
		if first == nil {
			return a
		}
		return first(r, a)
	}
}

type join struct {
	all   []Application
	about About
}

func (j *join) About() About { return j.about }

func (j *join) Serve(r *Request) *Answer {
	for _, app := range j.all {
		if under(app, r.URL.Path) {
			return app.Serve(r)
		}
	}
	for _, app := range j.all {
		if a := app.Serve(r); a != nil {
			return a
		}
	}
	return nil
}

// under reports whether a path is of those that are an application's alone.
func under(app Application, path string) bool {
	own := app.About().Under
	return own != "" && (path == own || strings.HasPrefix(path, own+"/"))
}

func (j *join) Ready(ctx context.Context) error {
	var faults []error
	for _, app := range j.all {
		faults = append(faults, app.Ready(ctx))
	}
	return errors.Join(faults...)
}

// merge adds a description to another, object by object. Of what both have, the first
// stands.
func merge(a, b map[string]any) map[string]any {
	sum := maps.Clone(a)
	for key, value := range b {
		known, both := sum[key].(map[string]any)
		object, isObject := value.(map[string]any)
		switch {
		case sum[key] == nil:
			sum[key] = value
		case both && isObject:
			sum[key] = merge(known, object)
		}
	}
	return sum
}
