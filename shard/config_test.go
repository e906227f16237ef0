package shard

import (
	"context"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

func TestDefaultConfigIsValid(t *testing.T) {
	must.OK(t, DefaultConfig().Validate())
}

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	_, err := New(Config{Batching: true, MaxDelay: -time.Second, Clock: 7}, HashInt32, func(context.Context, []Batch[int32, int]) {})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{
		"Shards is", "Window is", "set Batching to false", "MaxDelay is",
		"MaxSize is", "MaxHeld is", "MaxHeldBytes is", "Flushes", "FlushKeys", "FlushItems", "Clock",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}

func TestValidateEdges(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"delay equals window":       {func(c *Config) { c.MaxDelay = c.Window }, true},
		"delay below window":        {func(c *Config) { c.MaxDelay = c.Window - 1 }, false},
		"spans unused":              {func(c *Config) { c.Batching, c.Window, c.MaxDelay = false, 0, 0 }, true},
		"longest span":              {func(c *Config) { c.MaxDelay = MaxSpan }, true},
		"span too long":             {func(c *Config) { c.MaxDelay = MaxSpan + 1 }, false},
		"most shards":               {func(c *Config) { c.Shards = MaxShards }, true},
		"too many shards":           {func(c *Config) { c.Shards = MaxShards + 1 }, false},
		"one item is a batch":       {func(c *Config) { c.MaxSize = 1 }, true},
		"event clock":               {func(c *Config) { c.Clock = EventClock }, true},
		"fewer flushes than shards": {func(c *Config) { c.Flushes = 1; c.Shards = 8 }, true},
	} {
		c := DefaultConfig()
		tt.change(&c)
		if err := c.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTriggerNames(t *testing.T) {
	for _, trigger := range Triggers() {
		if trigger.String() == "" {
			t.Errorf("trigger %d has no name", trigger)
		}
	}
	if len(Triggers()) != int(triggers)-1 || Trigger(99).String() != "" {
		t.Error("triggers and names differ")
	}
}
