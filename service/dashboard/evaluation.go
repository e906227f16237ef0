package dashboard

import (
	"time"

	"keyfold/internal/chart"
	"keyfold/source/httpapi"
)

const evaluationPath = "/evaluation"

// evaluationView is what a fresh profile was worth when it was last asked.
type evaluationView struct {
	Fault    string
	At       time.Time
	Title    string
	Lead     []string
	Sections []chart.Section
}

func (d *Dashboard) evaluation(r *httpapi.Request) *httpapi.Answer {
	v := evaluationView{Title: "Evaluation"}
	page, at, err := d.sources.Evaluated()
	if err != nil {
		v.Fault = err.Error()
		return d.page(r, "evaluation", v.Title, d.seenNow(), v)
	}
	v.At, v.Title, v.Lead, v.Sections = at, page.Title, page.Lead, page.Sections
	return d.page(r, "evaluation", v.Title, d.seenNow(), v)
}
