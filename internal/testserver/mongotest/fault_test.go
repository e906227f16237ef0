package mongotest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"

	"keyfold/internal/testserver/must"
)

func noRetries(o *options.ClientOptions) { o.SetRetryWrites(false).SetRetryReads(false) }

var increment = bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}

// A write whose answer is lost is sent again by the driver, and executed once.
func TestRetriedWriteExecutesOnce(t *testing.T) {
	for name, fault := range map[string]Fault{
		"lose": {Reply: LoseReply}, "cut": {Reply: CutReply}, "close": {CloseConnection: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := fresh(t)
			ctx := t.Context()
			insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
			lose := func(command string) {
				fault.Commands, fault.Times = []string{command}, 1
				inject(t, s.Controls, fault)
			}
			lose("update")
			res, err := c.UpdateOne(ctx, one("user_id", 1), increment)
			must.OK(t, err)
			if res.MatchedCount != 1 || res.ModifiedCount != 1 || stored(t, c, one("user_id", 1)) != 1 {
				t.Errorf("update: %+v, n = %d", res, stored(t, c, one("user_id", 1)))
			}
			lose("insert")
			many, err := c.InsertMany(ctx, []any{one("user_id", 2), one("user_id", 3)})
			if err != nil || len(many.InsertedIDs) != 2 {
				t.Errorf("insert: %v, %v", many, err)
			}
			lose("update")
			res, err = c.UpdateOne(ctx, one("user_id", 4), increment, options.UpdateOne().SetUpsert(true))
			if err != nil || res.UpsertedID == nil || stored(t, c, one("user_id", 4)) != 1 {
				t.Errorf("upsert: %+v, %v", res, err)
			}
			lose("delete")
			deleted, err := c.DeleteOne(ctx, one("user_id", 3))
			if err != nil || deleted.DeletedCount != 1 {
				t.Errorf("delete: %+v, %v", deleted, err)
			}
			stats, err := s.Stats()
			must.OK(t, err)
			if stats.Commands["update"] != 4 {
				t.Errorf("%d update commands arrived, want 4", stats.Commands["update"])
			}
		})
	}
}

// In a bulk, what failed at first is executed again and the rest is not.
func TestRetriedBulk(t *testing.T) {
	s, c := fresh(t)
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}}, bson.D{{Key: "user_id", Value: 2}, {Key: "n", Value: "x"}})
	inject(t, s.Controls, Fault{Reply: LoseReply, Commands: []string{"update"}, Times: 1})
	var models []mongo.WriteModel
	for _, user := range []int{1, 2, 1} {
		models = append(models, mongo.NewUpdateOneModel().SetFilter(one("user_id", user)).SetUpdate(increment))
	}
	res, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	failed, _ := errors.AsType[mongo.BulkWriteException](err)
	if res.ModifiedCount != 2 || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != 1 || stored(t, c, one("user_id", 1)) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestLostReplyWithoutRetries(t *testing.T) {
	s, c := fresh(t, noRetries)
	for i, tc := range []struct {
		fault    Fault
		executed bool
	}{{Fault{Reply: LoseReply}, true}, {Fault{Reply: CutReply}, true}, {Fault{CloseConnection: true}, false}, {Fault{Reply: SwallowReply}, true}} {
		tc.fault.Commands, tc.fault.Skip, tc.fault.Times = []string{"insert"}, 1, 1
		inject(t, s.Controls, tc.fault)
		insert(t, c, one("user_id", 100+i))
		ctx, leave := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			_, err := c.InsertOne(ctx, bson.D{{Key: "user_id", Value: i}, {Key: "n", Value: 1}})
			answer <- err
		}()
		if tc.executed {
			must.Hold(t, "the insert", func() bool { return stored(t, c, one("user_id", i)) == 1 })
		}
		if tc.fault.Reply == SwallowReply {
			leave()
		}
		if err := <-answer; err == nil || !mongo.IsNetworkError(err) && !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", tc.fault, err)
		}
		leave()
		if executed := stored(t, c, one("user_id", i)) == 1; executed != tc.executed {
			t.Errorf("%+v: executed is %v", tc.fault, executed)
		}
	}
}

func TestLatency(t *testing.T) {
	s, c := fresh(t)
	FailCommand(t, s.URI(), "alwaysOn", bson.M{"failCommands": bson.A{"update"}, "blockConnection": true, "blockTimeMS": 5000})
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answer := make(chan error, 1)
	go func() {
		_, err := c.UpdateOne(ctx, one("user_id", 1), increment)
		answer <- err
	}()
	must.Hold(t, "the write to come", func() bool {
		stats, err := s.Stats()
		must.OK(t, err)
		return stats.Commands["update"] > 0
	})
	leave()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("a write whose sender has left: %v", err)
	}
	must.Hold(t, "the write whose answer is not awaited", func() bool { return stored(t, c, one("user_id", 1)) == 1 })
}

func TestFailedCommands(t *testing.T) {
	s, c := fresh(t, noRetries)
	for _, tc := range []struct {
		code  int32
		write bool
	}{{codeUnauthorized, true}, {codeUnauthorized, false}, {24, true}} {
		FailCommand(t, s.URI(), "alwaysOn", bson.M{"failCommands": bson.A{"insert", "find"}, "errorCode": tc.code})
		var err error
		if tc.write {
			_, err = c.InsertOne(t.Context(), one("user_id", 1))
		} else {
			err = c.FindOne(t.Context(), bson.D{}).Err()
		}
		if code, _ := codeOf(t, err, ""); code != tc.code {
			t.Errorf("code %d for %d", code, tc.code)
		}
	}
}

// Only what may pass is labelled, and sent again.
func TestLabels(t *testing.T) {
	s, c := fresh(t)
	for i, tc := range []struct {
		code    int
		labels  []string // instead of the server's
		retried bool
	}{{24, nil, false}, {91, nil, true}, {24, []string{"RetryableWriteError"}, true}, {91, []string{}, false}} {
		before, err := s.Stats()
		must.OK(t, err)
		data := bson.M{"failCommands": bson.A{"insert"}, "errorCode": tc.code}
		if tc.labels != nil {
			data["errorLabels"] = tc.labels
		}
		FailCommand(t, s.URI(), bson.M{"times": 1}, data)
		_, err = c.InsertOne(t.Context(), one("user_id", i))
		after, statsErr := s.Stats()
		must.OK(t, statsErr)
		if sent := after.Commands["insert"] - before.Commands["insert"]; (sent == 2) != tc.retried || (err == nil) != tc.retried {
			t.Errorf("%+v: sent %d times, %v", tc, sent, err)
		}
	}
}

// The failpoint's mode and client, and what a mongod would not understand.
func TestFailPoint(t *testing.T) {
	s, c := fresh(t, noRetries, func(o *options.ClientOptions) { o.SetAppName("shop") })
	data := func(appName string) bson.M {
		return bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true, "appName": appName}
	}
	fails := func(want ...bool) {
		t.Helper()
		for i, fails := range want {
			if _, err := c.InsertOne(t.Context(), one("x", 1)); (err != nil) != fails {
				t.Errorf("insert %d: %v", i, err)
			}
		}
	}
	must.OK(t, c.Drop(t.Context())) // and its index: several documents have no user_id
	FailCommand(t, s.URI(), bson.M{"times": 2}, data("shop"))
	fails(true, true, false)
	FailCommand(t, s.URI(), bson.M{"skip": 1}, data("shop"))
	fails(false, true, true)
	FailCommand(t, s.URI(), "alwaysOn", data("other")) // in the place of that
	fails(false, false)
	elsewhere := data("shop")
	elsewhere["namespace"] = "shop.others"
	FailCommand(t, s.URI(), "alwaysOn", elsewhere)
	fails(false)
	for _, wrong := range []struct {
		mode any
		data bson.M
	}{
		{"on", data("")},
		{bson.M{"times": 1, "skip": 1}, data("")},
		{bson.M{}, data("")},
		{"alwaysOn", bson.M{"errorCode": 91}},
		{"alwaysOn", bson.M{"failCommands": bson.A{"insert"}, "reply": LoseReply}},
	} {
		if err := SetFailCommand(t.Context(), s.URI(), wrong.mode, wrong.data); !isCode(err, codeBadValue) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A retry that overtakes its first attempt waits for it.
func TestConcurrentRetries(t *testing.T) {
	s, c := fresh(t)
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	const statements = 1000 // long enough to be overtaken
	var updates bson.A
	for range statements {
		updates = append(updates, bson.D{{Key: "q", Value: one("user_id", 1)}, {Key: "u", Value: increment}})
	}
	for number := range int64(3) {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				answer := ask(t, s, bson.D{
					{Key: "update", Value: "users"},
					{Key: "$db", Value: "shop"},
					{Key: "txnNumber", Value: number},
					{Key: "lsid", Value: one("id", bson.Binary{Subtype: 4, Data: make([]byte, 16)})},
					{Key: "updates", Value: updates},
				})
				if n, _ := lookup(answer, "nModified").AsInt64OK(); n != statements {
					t.Errorf("answer: %d modified", n)
				}
			})
		}
		wg.Wait()
	}
	if n := stored(t, c, one("user_id", 1)); n != 3*statements {
		t.Errorf("%d statements were executed %d times", 3*statements, n)
	}
}

func TestWriteErrors(t *testing.T) {
	s, c := fresh(t)
	match, err := bson.Marshal(one("user_id", one("$in", bson.A{2, 4})))
	must.OK(t, err)
	inject(t, s.Controls, Fault{WriteError: 121, Match: match, Namespace: "shop.users"})
	var models []mongo.WriteModel
	for user := range 5 {
		models = append(models, mongo.NewInsertOneModel().SetDocument(one("user_id", user)))
	}
	res, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	failed, _ := errors.AsType[mongo.BulkWriteException](err)
	if res.InsertedCount != 3 || len(failed.WriteErrors) != 2 || failed.WriteErrors[0].Index != 2 ||
		failed.WriteErrors[1].Index != 4 || failed.WriteErrors[1].Code != 121 || failed.WriteErrors[1].Details == nil {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestWriteConcernErrors(t *testing.T) {
	s, c := fresh(t, noRetries)
	for i, code := range []int32{64, 91} {
		// The search before has no write concern, and does not count.
		FailCommand(t, s.URI(), bson.M{"times": 1}, bson.M{
			"failCommands": bson.A{"find", "insert"}, "writeConcernError": bson.M{"code": code, "errmsg": "no majority"},
		})
		stored(t, c, one("user_id", 99))
		_, err := c.InsertOne(t.Context(), bson.D{{Key: "user_id", Value: i}, {Key: "n", Value: 1}})
		w, ok := errors.AsType[mongo.WriteException](err)
		if !ok || w.WriteConcernError == nil || w.WriteConcernError.Code != int(code) {
			t.Errorf("%d: %v", code, err)
		}
		if stored(t, c, one("user_id", i)) != 1 {
			t.Errorf("%d: the write was not executed", code)
		}
	}
	// With retries, 91 is one that passes, and the write is executed once.
	s, c = fresh(t)
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	FailCommand(t, s.URI(), bson.M{"times": 1}, bson.M{"failCommands": bson.A{"update"}, "writeConcernError": bson.M{"code": 91}})
	if _, err := c.UpdateOne(t.Context(), one("user_id", 1), increment); err != nil || stored(t, c, one("user_id", 1)) != 1 {
		t.Errorf("retried: %v, n = %d", err, stored(t, c, one("user_id", 1)))
	}
}

func TestStepDown(t *testing.T) {
	s, c := fresh(t, noRetries)
	insert(t, c, one("user_id", 1))
	must.OK(t, s.StepDown(0))
	var answer bson.Raw
	var err error
	must.Hold(t, "the driver to see it", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = c.InsertOne(ctx, one("user_id", 2))
		return err != nil && mongo.IsTimeout(err) // no primary to select
	})
	secondary := c.Database().RunCommand(t.Context(), one("hello", 1), options.RunCmd().SetReadPreference(secondaryPreferred))
	answer, err = secondary.Raw()
	must.OK(t, err)
	if answer.Lookup("isWritablePrimary").Boolean() || !answer.Lookup("secondary").Boolean() {
		t.Errorf("hello of a secondary: %s", answer)
	}
	must.OK(t, s.StepUp())
	if n := counted(t, c, bson.D{}); n != 1 {
		t.Errorf("%d documents after the step-up", n)
	}
}

// The error itself, on a connection that does not know of the step-down yet.
func TestStepDownError(t *testing.T) {
	s, c := fresh(t)
	direct := users(t, connect(t, "mongodb://"+s.Addr()+"/?directConnection=true&retryWrites=false&retryReads=false"))
	must.OK(t, s.StepDown(0))
	_, err := direct.InsertOne(t.Context(), one("user_id", 1))
	if code, labelled := codeOf(t, err, "RetryableWriteError"); code != 10107 || labelled {
		t.Errorf("not retryable: %v", err)
	}
	answer := ask(t, s, bson.D{{Key: "find", Value: "users"}, {Key: "$db", Value: "shop"}})
	if code, _ := lookup(answer, "code").AsInt64OK(); code != codeNotPrimaryRead || lookup(answer, "topologyVersion").Type == 0 {
		t.Errorf("read: %s", answer)
	}
	labelled := direct.Database().RunCommand(t.Context(), bson.D{
		{Key: "insert", Value: "users"}, {Key: "documents", Value: bson.A{one("user_id", 1)}}, {Key: "txnNumber", Value: int64(1)},
	}).Err()
	if code, ok := codeOf(t, labelled, "RetryableWriteError"); code != 10107 || !ok {
		t.Errorf("retryable: %v", labelled)
	}
	// A retrying client rides out a short absence.
	must.OK(t, s.StepDown(200*time.Millisecond))
	if _, err := c.InsertOne(t.Context(), one("user_id", 1)); err != nil {
		t.Errorf("over a short step-down: %v", err)
	}
}

func TestPause(t *testing.T) {
	s, c := fresh(t)
	must.OK(t, s.Pause(0))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Database().RunCommand(ctx, one("ping", 1)).Err(); !mongo.IsTimeout(err) {
		t.Errorf("paused: %v", err)
	}
	must.OK(t, s.Resume())
	must.OK(t, c.Database().RunCommand(t.Context(), one("ping", 1)).Err())
	must.OK(t, s.Pause(20*time.Millisecond))
	must.OK(t, c.Database().RunCommand(t.Context(), one("ping", 1)).Err())
}

func TestRefusedConnections(t *testing.T) {
	s, c := fresh(t, noRetries)
	must.OK(t, s.RefuseConnections(0))
	must.OK(t, s.Disconnect())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.InsertOne(ctx, one("user_id", 1)); err == nil {
		t.Error("a write went through")
	}
	must.OK(t, s.AcceptConnections())
	must.Hold(t, "the driver to come back", func() bool {
		_, err := c.InsertOne(t.Context(), one("user_id", 2))
		return err == nil
	})
}

func TestAuthentication(t *testing.T) {
	s := Start(t, WithUser("keyfold", "secret"))
	try := func(user, password string) error {
		u, err := url.Parse(s.URI())
		must.OK(t, err)
		if user != "" {
			u.User = url.UserPassword(user, password)
		}
		c := connect(t, u.String(), noRetries).Database("shop").Collection("users")
		_, err = c.InsertOne(t.Context(), one("x", 1))
		return err
	}
	if err := try("keyfold", "secret"); err != nil {
		t.Errorf("right password: %v", err)
	}
	for _, wrong := range [][2]string{{"keyfold", "guess"}, {"other", "secret"}} {
		if err := try(wrong[0], wrong[1]); !isCode(err, codeAuthenticationFailed) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if err := try("", ""); !isCode(err, codeUnauthorized) {
		t.Errorf("without a user: %v", err)
	}
	FailCommand(t, s.URI(), "alwaysOn", bson.M{"failCommands": bson.A{"saslStart"}, "errorCode": codeAuthenticationFailed})
	if err := try("keyfold", "secret"); !isCode(err, codeAuthenticationFailed) {
		t.Errorf("by the fault: %v", err)
	}
	must.OK(t, SetFailCommand(t.Context(), s.URI(), "off", nil))
	if err := try("keyfold", "secret"); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

// The same faults over the wire.
func TestRemote(t *testing.T) {
	s, c := fresh(t, noRetries)
	r, err := Dial(t.Context(), s.Addr())
	must.OK(t, err)
	defer func() { must.OK(t, r.Close()) }()
	match, err := bson.Marshal(one("user_id", 5))
	must.OK(t, err)
	id := inject(t, r.Controls, Fault{WriteError: 121, Match: match})
	if _, err := c.InsertOne(t.Context(), one("user_id", 5)); !isCode(err, 121) {
		t.Errorf("%v", err)
	}
	must.OK(t, r.Remove(id))
	insert(t, c, one("user_id", 5))
	must.OK(t, r.Pause(0)) // does not keep the remote from being answered
	must.OK(t, r.RefuseConnections(0))
	must.OK(t, r.Disconnect())
	must.OK(t, r.Resume())
	must.OK(t, r.AcceptConnections())
	stats, err := r.Stats()
	must.OK(t, err)
	if stats.Commands["insert"] != 2 {
		t.Errorf("stats: %+v", stats)
	}
	if _, err := r.Inject(Fault{Commands: []string{"find"}, Reply: "nonsense"}); err == nil {
		t.Error("an unknown fault was taken")
	}
}

// A monitoring client hears of a lost primary as soon as it is lost.
func TestAwaitedHello(t *testing.T) {
	s := Start(t)
	news := ask(t, s, bson.D{{Key: "hello", Value: 1}, {Key: "$db", Value: "admin"}})
	for _, step := range []struct {
		do      func() error
		primary bool
	}{
		{func() error { return s.StepDown(0) }, false},
		{s.StepUp, true},
	} {
		version, _ := lookup(news, "topologyVersion").DocumentOK()
		answer := make(chan document)
		go func() {
			answer <- ask(t, s, bson.D{
				{Key: "hello", Value: 1},
				{Key: "topologyVersion", Value: bson.Raw(version)},
				{Key: "maxAwaitTimeMS", Value: 60000},
				{Key: "$db", Value: "admin"},
			})
		}()
		time.Sleep(20 * time.Millisecond) // lets the server begin to wait
		must.OK(t, step.do())
		news = <-answer
		if primary, _ := lookup(news, "isWritablePrimary").BooleanOK(); primary != step.primary {
			t.Errorf("news: %s", news)
		}
	}
}

// A server in a container tells clients the name that they reach it by, and says whether it is the
// primary, by which the container's health goes.
func TestHostAndPrimary(t *testing.T) {
	s := Start(t, WithHost("mongodb:27017"))
	hosts, _ := lookup(ask(t, s, bson.D{{Key: "hello", Value: 1}, {Key: "$db", Value: "admin"}}), "hosts").ArrayOK()
	if host, _ := lookup(hosts, "0").StringValueOK(); host != "mongodb:27017" {
		t.Errorf("hello names %q", host)
	}
	for _, down := range []bool{false, true} {
		if down {
			must.OK(t, s.StepDown(0))
		}
		if primary, err := Primary(t.Context(), s.Addr()); err != nil || primary == down {
			t.Errorf("after a step-down (%v) it is the primary: %v, %v", down, primary, err)
		}
	}
}

// encodeRequest returns a message with one command.
func encodeRequest(command document) []byte {
	start, b := wiremessage.AppendHeaderStart(nil, 1, 0, wiremessage.OpMsg)
	b = wiremessage.AppendMsgSectionType(wiremessage.AppendMsgFlags(b, 0), wiremessage.SingleDocument)
	b = append(b, command...)
	return bsoncore.UpdateLength(b, start, int32(len(b)))
}

// ask sends one command past the driver.
func ask(t testing.TB, s *Server, command bson.D) document {
	t.Helper()
	raw, err := bson.Marshal(command)
	if err != nil {
		t.Error(err)
		return nil
	}
	socket, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = socket.Close() }()
	if _, err = socket.Write(encodeRequest(raw)); err != nil {
		t.Error(err)
	}
	m, _, err := readMessage(socket, nil)
	if err != nil {
		t.Error(err)
	}
	return m.body
}
