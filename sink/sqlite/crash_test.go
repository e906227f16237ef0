package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlfile/crashtest"
)

const (
	crashUsers      = 64
	crashDimensions = 256
)

// writeUntilKilled is the child's part of TestKill: it writes versions in turn,
// and prints each once it was acknowledged.
func writeUntilKilled(path string) error {
	f, err := Open(path, settings(crashDimensions))
	if err != nil {
		return err
	}
	for {
		users := make([]int32, 1+rand.IntN(crashUsers))
		for i, user := range rand.Perm(crashUsers)[:len(users)] {
			users[i] = int32(user)
		}
		stored, err := f.Load(ctx, users)
		if err != nil {
			return err
		}
		next := make([]*profile.Profile, len(users))
		for i, user := range users {
			version := int32(1)
			if stored[i] != nil {
				version = stored[i].Version + 1
			}
			next[i] = crashProfile(user, version)
		}
		for i, err := range f.Swap(ctx, next) {
			if err != nil {
				return err
			}
			fmt.Println(next[i].UserID, next[i].Version)
		}
	}
}

// crashProfile returns a profile in which every component tells its version.
func crashProfile(user, version int32) *profile.Profile {
	p := &profile.Profile{UserID: user, Version: version, Vector: make([]float64, crashDimensions), History: profile.Mass}
	for i := range p.Vector {
		p.Vector[i] = float64(version)
	}
	return p
}

// TestKill kills a writing process at random moments. Whatever it had been told
// is written must be there, whole, and the file sound.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kill.db")
	acknowledged := map[int32]int32{}
	for range 10 {
		crashtest.Kill(t, path, acknowledged)
		verify(t, path, acknowledged)
	}
	if len(acknowledged) < crashUsers/2 {
		t.Fatalf("only %d users were written in all: the test tested little", len(acknowledged))
	}
}

// verify opens the file as the next start would.
func verify(t *testing.T, path string, acknowledged map[int32]int32) {
	t.Helper()
	f, err := Open(path, settings(crashDimensions))
	must.OK(t, err)
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var sound string
	if err := f.One("PRAGMA integrity_check", &sound); err != nil || sound != "ok" {
		t.Fatalf("integrity_check: %s, %v", sound, err)
	}
	for p, err := range f.AllProfiles(ctx) {
		must.OK(t, err)
		if p.Version < acknowledged[p.UserID] {
			t.Errorf("user %d has version %d, but %d was acknowledged", p.UserID, p.Version, acknowledged[p.UserID])
		}
		for _, x := range p.Vector {
			if x != float64(p.Version) {
				t.Fatalf("user %d: version %d has a component of version %v", p.UserID, p.Version, x)
			}
		}
		acknowledged[p.UserID] = p.Version
	}
	profiles, err := f.Load(ctx, seq(crashUsers))
	must.OK(t, err)
	for user, p := range profiles {
		if version := acknowledged[int32(user)]; version > 0 && p == nil {
			t.Errorf("user %d is missing, but version %d was acknowledged", user, version)
		}
	}
}
