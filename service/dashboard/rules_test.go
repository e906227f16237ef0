package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/notify/ruleset"
)

// The pages of sets of rules have what the commands print, word by word: both show one value.
//
// Promise(dashboard/same-rules): The pages of sets of rules have every word that `rules list`, `rules diff` and `rules shadow`
// print of the same values.
func TestThePagesOfRulesHaveWhatTheCommandsPrint(t *testing.T) {
	p := newPost()
	s := guarded(t, deciding(t, p, Config{}), onLoopback())
	printed := func(print func(w *cli.Text)) string {
		var out strings.Builder
		print(&cli.Text{W: &out})
		return out.String()
	}
	diff, err := p.rules().Diff(context.Background(), 41, 42)
	if err != nil || len(diff.Differences) != 2 {
		t.Fatalf("%v, %v", diff, err)
	}
	list := ruleset.List{Sets: p.sets}
	for path, text := range map[string]string{
		rulesPath + "/42/diff/41": strings.ReplaceAll(printed(diff.Print), "->", ""),
		rulesPath:                 strings.NewReplacer("*", "", "->", "", ", version", "", "T", " ", ".000Z", "", "Z", "", "of which", "").Replace(printed(list.Print)) + strings.NewReplacer("->", "", "of which", "", "differ\n", "\n").Replace(printed(p.shadow.Print)),
	} {
		_, page := get(t, s, path)
		if n := missing(t, path, page, text); n < 8 {
			t.Errorf("%s: only %d words were compared", path, n)
		}
	}
	_, page := get(t, s, rulesPath+"/42")
	for _, want := range []string{"in force", "fewer promotions", "security-now", `{&#34;field&#34;:&#34;event_type&#34;`, "SECURITY_ALWAYS", `href="/rules/42/diff/41"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a set lacks %q", want)
		}
	}
	if _, page = get(t, s, rulesPath+"/42/diff/42"); !strings.Contains(page, "the sets 42 and 42 say the same") {
		t.Error("it is not said that nothing differs")
	}
	for _, path := range []string{"/rules/", "/rules/0", "/rules/x", "/rules/-1", "/rules/43", "/rules/42/", "/rules/42/diff", "/rules/42/diff/40", "/rules/42/diff/x", "/rules/42/other/41", "/rules/42/diff/41/"} {
		if res, _ := get(t, s, path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, res.StatusCode)
		}
	}
}

// Forms stand where the viewer may send them: with actions, to those who may. A plan knows by whom.
func TestRulesAreChangedByThoseWhoMay(t *testing.T) {
	p := newPost()
	var by string
	sources := everything()
	sources.Rules = p.rules()
	for _, name := range []string{CheckRules, SimulateRules, PublishRules, RollBackRules} {
		sources.Actions = append(sources.Actions, Action{Name: name, Plan: func(_ context.Context, form url.Values, _ *Progress) (*Planned, error) {
			return &Planned{Title: "Publish " + form.Get(FieldFile) + "?", Button: "publish", Count: 1}, nil
		}, Do: func(_ context.Context, planned *Planned, _ *Progress) (*Outcome, error) {
			by = planned.By
			return &Outcome{}, nil
		}})
	}
	const form, back = `enctype="multipart/form-data"`, "/plan/rules.rollback"
	seen := guarded(t, shownAs(t, Config{}, sources, nil), onLoopback())
	for path, not := range map[string]string{rulesPath: form, rulesPath + "/41": back} {
		if _, page := get(t, seen, path); strings.Contains(page, not) {
			t.Errorf("%s offers an action where there is none", path)
		}
	}
	d := shownAs(t, Config{Actions: true, Now: time.Now}, sources, nil)
	t.Cleanup(d.jobs.close)
	acts := guarded(t, d, onLoopback())
	show := unlocked(t, acts)
	if _, page := get(t, acts, rulesPath); strings.Contains(page, form) {
		t.Error("a browser that was not asked is offered an action")
	}
	_, page := get(t, acts, rulesPath, show)
	for _, want := range []string{form, `name="if-active" value="42"`, `formaction="/plan/rules.check"`, `formaction="/plan/rules.simulate"`, `action="/plan/rules.publish"`, `name="back" value="/rules"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form lacks %q", want)
		}
	}
	if _, page = get(t, acts, rulesPath+"/41", show); !strings.Contains(page, back) {
		t.Error("an earlier set cannot be put into force again")
	}
	if _, page = get(t, acts, rulesPath+"/42", show); strings.Contains(page, back) {
		t.Error("the set in force can be put into force again")
	}
	led := post(acts, planPath+PublishRules, url.Values{FieldFile: {"{}"}, "back": {"/rules"}}, show)
	_, page = get(t, acts, led.Header.Get("Location"), show)
	plan := planField.FindStringSubmatch(page)
	if plan == nil {
		t.Fatalf("there is no plan: %s", page)
	}
	led = post(acts, doPath, url.Values{"plan": {plan[1]}}, show)
	if _, page = get(t, acts, led.Header.Get("Location"), show); !strings.Contains(page, "Done") || by == "" {
		t.Errorf("it is done by %q: %s", by, page)
	}
}

// Pages of sets stay within their bound with many long texts, and say what they leave out.
func TestPagesOfRulesAreBounded(t *testing.T) {
	long := strings.Repeat(`"<é`, 500)
	sources := everything()
	sources.Rules = &Rules{
		Program: "keyfold notify",
		Sets: func(_ context.Context, n int) (*ruleset.List, error) {
			return &ruleset.List{Sets: slices.Repeat([]ruleset.Listed{{Version: 7, By: long, Note: long, Document: long, Checksum: long}}, n)}, nil
		},
		Set: func(context.Context, int64) (*ruleset.Shown, error) {
			one := ruleset.ShownRule{ID: "r", Name: long, Version: long, Description: long, Conditions: []byte(quoted(long)), Action: []byte(quoted(long))}
			return &ruleset.Shown{Each: slices.Repeat([]ruleset.ShownRule{one}, 500)}, nil
		},
		Diff: func(context.Context, int64, int64) (*ruleset.Diff, error) {
			return &ruleset.Diff{A: 6, B: 7, Differences: slices.Repeat([]ruleset.Difference{{Path: long, Was: long, Is: long}}, 500)}, nil
		},
		Shadow: func(_ context.Context, n int) (*ruleset.Shadow, error) {
			one := ruleset.ShadowSample{Decision: long, Set: long, Was: long, Would: long, WasReasons: []string{long, long, long}, WouldReasons: []string{long, long, long}}
			return &ruleset.Shadow{On: true, Candidate: 3, Samples: slices.Repeat([]ruleset.ShadowSample{one}, n)}, nil
		},
	}
	s := guarded(t, shownAs(t, Config{}, sources, nil), onLoopback())
	for path, says := range map[string]string{rulesPath: "and older ones", rulesPath + "/7": "more", rulesPath + "/7/diff/6": "more"} {
		if _, page := get(t, s, path); len(page) > 60<<10 || !strings.Contains(page, says) || !strings.Contains(page, "&lt;é") {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
}
