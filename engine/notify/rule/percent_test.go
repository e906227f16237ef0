package rule

import (
	"encoding/json"
	"fmt"
	"testing"
)

// chosen returns which of 10,000 users a rule with a share chooses.
func chosen(t *testing.T, rule int, share string) (users [10_000]bool) {
	p := compiled(t, ruleOf(rule, 1, leaf("user_id", "percent", json.Number(share)), "NOW"))
	in := promo()
	for i := range users {
		in.Event.UserID = fmt.Sprint("user-", i)
		users[i] = p.Match(in, nil) != nil
	}
	return users
}

func count10k(users [10_000]bool) (n int) {
	for _, is := range users {
		if is {
			n++
		}
	}
	return n
}

func TestAShareOfUsersIsNearItsPercent(t *testing.T) {
	for share, want := range map[string]int{"0": 0, "0.5": 50, "10": 1000, "20": 2000, "50": 5000, "99.99": 9999, "100": 10_000} {
		users := chosen(t, 1, share)
		deviation := count10k(users) - want // of 10,000 draws the standard deviation is 50 at most
		if deviation < -200 || deviation > 200 || (want == 0 || want == 10_000) && deviation != 0 {
			t.Errorf("%s %%: %d users of 10,000", share, count10k(users))
		}
		if users != chosen(t, 1, share) {
			t.Errorf("%s %%: it chooses others the second time", share)
		}
	}
}

func TestASmallerShareIsAmongTheLarger(t *testing.T) {
	smaller := chosen(t, 1, "0")
	for _, share := range []string{"0.01", "1", "10", "20", "75", "100"} {
		larger := chosen(t, 1, share)
		for i := range larger {
			if smaller[i] && !larger[i] {
				t.Fatalf("user %d is among fewer, and not among %s %%", i, share)
			}
		}
		smaller = larger
	}
}

// TestRulesChooseIndependently holds that of the users whom one rule chooses, another one
// chooses as many as of all.
func TestRulesChooseIndependently(t *testing.T) {
	a, b := chosen(t, 1, "30"), chosen(t, 2, "30")
	var both [10_000]bool
	for i := range both {
		both[i] = a[i] && b[i]
	}
	if n := count10k(both); n < 900-150 || n > 900+150 {
		t.Errorf("%d of 10,000 users are chosen by both, expected about 900", n)
	}
}

// TestChosenUsersStayChosen holds the law by which other programs can tell who is chosen.
func TestChosenUsersStayChosen(t *testing.T) {
	p := compiled(t, ruleOf(1, 1, leaf("user_id", "percent", 10), "NOW"))
	in := promo()
	var found []string
	for i := 0; len(found) < 5; i++ {
		in.Event.UserID = fmt.Sprint("user-", i)
		if p.Match(in, nil) != nil {
			found = append(found, in.Event.UserID)
		}
	}
	if want := "[user-15 user-19 user-74 user-88 user-102]"; fmt.Sprint(found) != want {
		t.Errorf("the first users are %s, expected %s: a change moves users of every published set", fmt.Sprint(found), want)
	}
	if in.Event.UserID = ""; p.Match(in, nil) != nil {
		t.Error("an event without a user is chosen")
	}
}
