package mongodb

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// Another program's user_id and version may be a long or a double. Such a profile
// is folded into and erased like any other; so is, erased, one whose version
// nobody can read.
//
// Promise(event/foreign-numbers): A profile whose user_id or version is a long or a double is folded
// into and erased like any other; an erasure succeeds whatever it finds.
func TestForeignNumbersAreWrittenAndErased(t *testing.T) {
	for name, change := range map[string][]bson.E{
		"long user":        {{Key: "user_id", Value: int64(12345)}},
		"double user":      {{Key: "user_id", Value: 12345.0}},
		"long version":     {{Key: "version", Value: int64(12)}},
		"both doubles":     {{Key: "user_id", Value: 12345.0}, {Key: "version", Value: 12.0}},
		"no version":       {{Key: "version", Value: gone}},
		"a text's version": {{Key: "version", Value: "12"}},
	} {
		for _, write := range []bool{true, false} {
			t.Run(fmt.Sprint(name, "/", write), func(t *testing.T) {
				s := openReady(t, settings(uri(t), 3))
				// As before the validator was there.
				_, err := s.users.InsertOne(ctx, bson.Raw(plain(change...)), options.InsertOne().SetBypassDocumentValidation(true))
				must.OK(t, err)
				all, unreadable := s.Load(ctx, []int32{12345})
				if write && unreadable == nil {
					p := *all[0]
					p.Version++
					p.History, p.Applied = profile.Mass, profile.Applied{}.With(1, []profile.AppliedID{profile.DigestOf("a").ID()}, 1, profile.DefaultIDLimits())
					put(t, s, &p)
					if got := stored(t, s, 12345); got.Version != 13 {
						t.Errorf("version %d is stored", got.Version)
					}
				}
				must.OK(t, s.Forget(ctx, 12345, 42))
				if got := stored(t, s, 12345); !got.Erased() || unreadable == nil && got.Version < 13 {
					t.Errorf("after Forget: %+v", got)
				}
			})
		}
	}
}
