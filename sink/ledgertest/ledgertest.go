package ledgertest

import (
	"context"
	"iter"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Ledger is a ledger with what commands read of it.
type Ledger interface {
	notify.Ledger
	notify.Reports
	Unreported(ctx context.Context, before engine.Millis) (int64, error)
	SetPreferences(ctx context.Context, user string, own notify.Preferences) error
	UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (int64, error)
	Preferences(ctx context.Context, user string) (ledger.Preferences, error)
	Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error]
	Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error)
	Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error)
	Counts(ctx context.Context, in ledger.Span) ([]ledger.Count, error)
	Users(ctx context.Context) (int64, error)
	OldestDay(ctx context.Context) (engine.Millis, error)
	Merge(ctx context.Context, m *notify.Merge) (decisions int, err error)
	Aliases(ctx context.Context, user string) ([]notify.Alias, error)
}

// Store is a ledger under test.
type Store struct {
	Ledger
	// Reopen closes the ledger and opens it anew with what is durable. It is nil
	// where nothing outlives the process. It may be called once.
	Reopen func() Store
	// Drop deletes the record of a decision and nothing else, as the retention of
	// records does; nil where a ledger is tested in front of another one.
	Drop func(t *testing.T, decision uuid.UUID)
}

// Run holds the ledger that open returns against the contract. Each test opens its
// own, empty; open registers the closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"RoundTrip", testRoundTrip},
		{"StagesOfRecords", testStagesOfRecords},
		{"LoadIsAligned", testLoadIsAligned},
		{"BigState", testBigState},
		{"UserIDs", testUserIDs},
		{"OneWriterWins", testOneWriterWins},
		{"PartialWins", testPartialWins},
		{"EventTwiceInOneChange", testEventTwiceInOneChange},
		{"EventOfTwoUsersInOneCall", testEventOfTwoUsersInOneCall},
		{"EventOfAnotherUser", testEventOfAnotherUser},
		{"EventTwiceOverTime", testEventTwiceOverTime},
		{"Find", testFind},
		{"DeferralUntilNow", testDeferralUntilNow},
		{"DeferralUntilNever", testDeferralUntilNever},
		{"Lease", testLease},
		{"ClaimTakesTheOldest", testClaimTakesTheOldest},
		{"ClaimTakesWholeDigests", testClaimTakesWholeDigests},
		{"LongestDigestKey", testLongestDigestKey},
		{"Postponed", testPostponed},
		{"FollowUps", testFollowUps},
		{"FollowUpThatIsCancelled", testFollowUpThatIsCancelled},
		{"ForgetFollowUps", testForgetFollowUps},
		{"Reads", testReads},
		{"Marks", testMarks},
		{"Undispatched", testUndispatched},
		{"UndispatchedWithoutRecords", testUndispatchedWithoutRecords},
		{"UndispatchedDigest", testUndispatchedDigest},
		{"LoadOfDeferrals", testLoadOfDeferrals},
		{"Reports", testReports},
		{"ReportBeforeMark", testReportBeforeMark},
		{"ReportOfALaterTurn", testReportOfALaterTurn},
		{"ReportOfADigest", testReportOfADigest},
		{"ReportOfAnErasedUser", testReportOfAnErasedUser},
		{"ReportsInAnyOrder", testReportsInAnyOrder},
		{"ReportsInParallel", testReportsInParallel},
		{"ExpiredMarks", testExpiredMarks},
		{"Unreported", testUnreported},
		{"Preferences", testPreferences},
		{"PreferencesOfAVersion", testPreferencesOfAVersion},
		{"PreferencesInParallel", testPreferencesInParallel},
		{"Forget", testForget},
		{"ForgetConflicts", testForgetConflicts},
		{"ForgetRace", testForgetRace},
		{"Merge", testMerge},
		{"MergeOfPreferences", testMergeOfPreferences},
		{"MergeOfNothing", testMergeOfNothing},
		{"MergeConflicts", testMergeConflicts},
		{"MergeAgain", testMergeAgain},
		{"MergeForget", testMergeForget},
		{"MergeRace", testMergeRace},
		{"MergeRacesPreferences", testMergeRacesPreferences},
		{"MergeRacesForget", testMergeRacesForget},
		{"MergeRacesReports", testMergeRacesReports},
		{"Records", testRecords},
		{"Counts", testCounts},
		{"CountsOfASpan", testCountsOfASpan},
		{"EndedContext", testEndedContext},
		{"CancelledCommits", testCancelledCommits},
		{"Durability", testDurability},
		{"Model", testModel},
		{"Parallel", testParallel},
		{"Leases", testLeases},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}
