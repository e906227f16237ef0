package mongodb

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// A document that cannot be used is its user's matter: Load answers for all others.
// Without the unique index a user may have two, and neither can be used; and one
// may name its user in a list.
//
// Promise(event/unusable-profile)
func TestUnreadableDocumentFailsItsUserOnly(t *testing.T) {
	s := open(t, settings(uri(t), 3))
	document := func(user any, change ...bson.E) bson.Raw {
		return plain(append([]bson.E{{Key: "user_id", Value: user}}, change...)...)
	}
	_, err := s.users.InsertMany(ctx, []bson.Raw{
		document(int32(1)),
		document(int32(2), bson.E{Key: "version", Value: gone}),
		document(int32(3)),
		document(int32(4)), document(int32(4)),
		document(bson.A{int32(5)}),
		document(int64(6), bson.E{Key: "embedding", Value: "text"}),
		document(int32(7)),
	})
	must.OK(t, err)
	users := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	profiles, err := s.Load(ctx, users)
	unreadable, ok := errors.AsType[*engine.UnreadableError](err)
	if !ok || engine.KindOf(err) != engine.Configuration {
		t.Fatalf("Load says %v, want the users that cannot be read", err)
	}
	cures := map[int32]string{2: "set it to 1", 4: "delete the others", 5: "repair the document", 6: "repair the document"}
	for i, user := range users {
		cure := cures[user]
		if (profiles[i] != nil) != (cure == "" && user != 8) {
			t.Errorf("user %d: %+v", user, profiles[i])
		}
		if why := unreadable.Users[user]; (why == nil) != (cure == "") ||
			why != nil && (engine.KindOf(why) != engine.Configuration || !strings.Contains(why.Error(), cure) || !strings.Contains(why.Error(), string('0'+user))) {
			t.Errorf("user %d: %v, want its cure (%s)", user, why, cure)
		}
	}
}
