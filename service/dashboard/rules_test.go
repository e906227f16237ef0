package dashboard

import (
	"context"
	"net/http"
	"net/url"
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
