package notify

import (
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
)

// The first item of a digest stays its first one when a user is merged whose last digest it was.
func TestAMergeCountsTheLastDigestOnce(t *testing.T) {
	digest := uuid.New()
	item := func(at int64) Record {
		r := Record{EventID: uuid.New(), DigestID: digest, Outcome: Now, Type: Promo, DecidedAt: 1000, Channels: []Channel{Push}}
		r.Source, r.Facts.Horizon = string(rune('a'+at)), MaxHorizon
		return r
	}
	items := []Record{item(0), item(1)}
	var into, alias State
	for i := range items {
		into.Fold(&items[i])
	}
	other := Record{EventID: uuid.New(), Outcome: Now, Type: Update, DecidedAt: 500, Channels: []Channel{Push}}
	other.Facts.Horizon = MaxHorizon
	alias.Fold(&other)

	for _, since := range []int64{0, 700} {
		of := []Record{other}
		if since > 0 {
			of = nil // it is not known any more
		}
		got := MergeStates(&alias, &into, of, items, engine.Millis(since))
		if len(got.Sends) != 2 || len(got.Sent) != 3 || got.Sent[1].Item || !got.Sent[2].Item || got.LastDigest != digest {
			t.Errorf("records are known from %d on: %d sends, %+v, last digest %v", since, len(got.Sends), got.Sent, got.LastDigest)
		}
	}
	got := MergeStates(&into, &alias, nil, nil, 2000)
	if len(got.Sends) != 2 || got.LastDigest != digest {
		t.Errorf("no record is known: %d sends, last digest %v", len(got.Sends), got.LastDigest)
	}
}

// The state of two users of whom no record is kept is within the bounds: it can be read back.
func TestAMergeWithoutRecordsKeepsBounds(t *testing.T) {
	var into, alias State
	for i := range 200 {
		into.Fold(recordOf(i, Now, testNow+engine.Millis(2*i)))
		alias.Fold(recordOf(1000+i, Now, testNow+engine.Millis(2*i+1)))
	}
	got := MergeStates(&alias, &into, nil, nil, testNow+day)
	if len(got.Sends) != MaxSends || got.Sends[0] != testNow+144 {
		t.Errorf("%d sends from %d on", len(got.Sends), got.Sends[0]-testNow)
	}
	if _, err := ReadState(got.Append(nil)); err != nil {
		t.Error(err)
	}
}
