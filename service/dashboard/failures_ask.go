package dashboard

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
)

// failuresAsk is what a page of failures is about. It stands in the URL, and in the plans of actions.
type failuresAsk struct {
	failed.Choice
	Older  string // as it was given
	UserID string
	Page   int
	Fault  string

	Wheres, Reasons, Types []choice
}

// longestAsk is how long a text of a filter may be, in bytes: the texts of an index are shorter.
const longestAsk = 300

func readAsk(q url.Values, now time.Time) failuresAsk {
	get := func(name string) string { return cli.Printable(q.Get(name)[:min(len(q.Get(name)), longestAsk)]) }
	a := failuresAsk{Older: get("older"), UserID: strings.TrimSpace(get("user")), Page: 1}
	a.Reason, a.Type, a.Error, a.Where, a.ID, a.Key = get("reason"), get("type"), get("error"), get("where"), strings.TrimSpace(get("id")), get("key")
	if a.UserID != "" {
		a.User = &a.UserID
	}
	if n, err := strconv.Atoi(get("page")); err == nil && n > 0 {
		a.Page = n
	}
	var span cli.Span
	switch err := span.UnmarshalText([]byte(a.Older)); {
	case a.Older == "":
	case err != nil || span <= 0:
		a.Fault = fmt.Sprintf("“older than” is %q: it must be a length of time above 0, such as 2h or 3d", a.Older)
	default:
		a.Before = now.Add(-time.Duration(span))
	}
	return a
}

// query is the filter without the page.
func (a *failuresAsk) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"reason": a.Reason, "type": a.Type, "user": a.UserID, "error": a.Error, "older": a.Older, "where": a.Where, "id": a.ID, "key": a.Key,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// path is the page of the filter.
func (a *failuresAsk) path(page int) string {
	q := a.query()
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return failuresPath
	}
	return failuresPath + "?" + q.Encode()
}

// Narrow reports whether anything is asked for.
func (a *failuresAsk) Narrow() bool { return len(a.query()) > 0 }

// Link is the page that is shown.
func (a *failuresAsk) Link() string { return a.path(a.Page) }

// Again is the same page, with all read anew.
func (a *failuresAsk) Again() string {
	q := a.query()
	q.Set("read", "again")
	return failuresPath + "?" + q.Encode()
}

// Words are the filter for people.
func (a *failuresAsk) Words() string {
	var all []string
	for _, f := range []struct{ name, value string }{
		{"where", a.Where}, {"reason", a.Reason}, {"type", a.Type}, {"user", a.UserID}, {"error", a.Error}, {"older than", a.Older}, {"id", a.ID}, {"letter", a.Key},
	} {
		if f.value != "" {
			all = append(all, f.name+" "+cli.Printable(f.value))
		}
	}
	if len(all) == 0 {
		return "all failures"
	}
	return strings.Join(all, ", ")
}

// offer lists what can be chosen.
func (a *failuresAsk) offer(from *Failures, counts *failed.Counts) {
	a.Wheres = []choice{{"", "anywhere", a.Where == ""}}
	for _, p := range from.Places {
		a.Wheres = append(a.Wheres, choice{p.Where, p.Name, a.Where == p.Where})
	}
	a.Reasons, a.Types = choices(counts.Reasons, a.Reason), choices(counts.Types, a.Type)
}

// choices are the most frequent names, and the chosen one.
func choices(names map[string]int, chosen string) []choice {
	all := []choice{{"", "any", chosen == ""}}
	ranked := failed.Ranked(names)
	found := chosen == ""
	weight := 0
	for _, name := range ranked[:min(choicesShown, len(ranked))] {
		if weight += escaped(name); weight > heaviestList {
			break
		}
		found = found || name == chosen
		all = append(all, choice{name, name, name == chosen})
	}
	if !found {
		all = append(all, choice{chosen, chosen, true})
	}
	return all
}
