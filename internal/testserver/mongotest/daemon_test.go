package mongotest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
)

// Writers go on while the server is killed and started again: every write that
// was acknowledged is there, and none is there twice.
func TestDaemonSurvivesKill(t *testing.T) {
	d := StartProcess(t)
	c := users(t, connect(t, d.URI(), func(o *options.ClientOptions) { o.SetTimeout(10 * time.Second) }))
	const writers, kills = 4, 5
	insertUsers(t, c, writers)

	var acknowledged, unknown [writers]atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for user := range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				res, err := c.UpdateOne(t.Context(), one("user_id", user), increment)
				switch {
				case err != nil:
					unknown[user].Add(1)
				case res.ModifiedCount == 1:
					acknowledged[user].Add(1)
				default:
					t.Errorf("user %d is gone", user)
					return
				}
			}
		})
	}
	for range kills {
		goal := acknowledged[0].Load() + 40
		must.Hold(t, "writes between two kills", func() bool { return acknowledged[0].Load() >= goal })
		d.Restart(t)
	}
	cancel()
	wg.Wait()
	for user := range writers {
		n, sure, maybe := stored(t, c, one("user_id", user)), acknowledged[user].Load(), unknown[user].Load()
		if n < sure || n > sure+maybe {
			t.Errorf("user %d: %d increments are stored; %d were acknowledged, %d are unknown", user, n, sure, maybe)
		}
	}
}

func insertUsers(t *testing.T, c *mongo.Collection, n int) {
	t.Helper()
	for user := range n {
		insert(t, c, bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 0}})
	}
}

func TestDaemonIsControlled(t *testing.T) {
	d := StartProcess(t)
	c := users(t, connect(t, d.URI()))
	insertUsers(t, c, 1)
	r, err := Dial(t.Context(), d.Address())
	must.OK(t, err)
	defer func() { must.OK(t, r.Close()) }()
	inject(t, r.Controls, Fault{Reply: LoseReply, Commands: []string{"update"}, Times: 1})
	if _, err := c.UpdateOne(t.Context(), one("user_id", 0), increment); err != nil || stored(t, c, one("user_id", 0)) != 1 {
		t.Errorf("lost reply in the daemon: %v", err)
	}
	stats, err := r.Stats()
	if err != nil || stats.Commands["update"] != 2 {
		t.Errorf("%+v, %v", stats, err)
	}
}
