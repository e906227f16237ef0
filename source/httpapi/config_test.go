package httpapi

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

const goodToken = "0123456789abcdef"

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:7080", "127.9.9.9:0", "[::1]:8080", "localhost:8080", "LOCALHOST:1"} {
		c := DefaultConfig()
		if c.Addr = addr; c.Validate() != nil {
			t.Errorf("%s: %v", addr, c.Validate())
		}
	}
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:80", "10.0.0.1:80", "example.com:80", "localhost.evil.com:80"} {
		c := DefaultConfig()
		c.Addr = addr
		err := c.Validate()
		if err == nil || engine.KindOf(err) != engine.Configuration {
			t.Errorf("%q is served without tokens: %v", addr, err)
			continue
		}
		for _, cure := range []string{"127.0.0.1:7080", "httpapi.Config.TokenFile", "--insecure"} {
			if !strings.Contains(err.Error(), cure) {
				t.Errorf("%q: the error does not name %s: %v", addr, cure, err)
			}
		}
		for _, allow := range []func(*Config){
			func(c *Config) { c.Insecure = true },
			func(c *Config) { c.Tokens = []string{goodToken} },
			func(c *Config) { c.TokenFile = "some file" },
		} {
			allowed := c
			if allow(&allowed); allowed.Validate() != nil {
				t.Errorf("%q: %v", addr, allowed.Validate())
			}
		}
	}
	for _, addr := range []string{"127.0.0.1", "", "1:2:3"} {
		c := DefaultConfig()
		c.Addr, c.Insecure = addr, true
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:7080") {
			t.Errorf("%q: the error must show a good address: %v", addr, err)
		}
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	c := Config{
		Addr: "nowhere", TLSCert: "x", Tokens: []string{goodToken, "s3cret", "with a space in it"},
		Total: Rate{PerSecond: math.NaN()}, Sender: Rate{PerSecond: 1}, ReloadInterval: -1,
		Timeouts: Timeouts{Body: time.Second, Answer: time.Second},
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{
		"httpapi.Config.Addr", "httpapi.Config.TLSKey", "token 2", "token 3", "httpapi.Config.Total is NaN", "httpapi.Config.Sender has a burst", "httpapi.Config.MaxConcurrent",
		"looked at every", "header timeout", "idle timeout", "above the body timeout",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	for _, secret := range []string{"s3cret", "with a space", goodToken} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("a token is printed: %v", err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default is at fault: %v", err)
	}
}

func TestFilesMustBeGoodAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, set := range map[string]func(*Config){
		"no such token file": func(c *Config) { c.TokenFile = filepath.Join(dir, "none") },
		"no token":           func(c *Config) { c.TokenFile = file("empty", "# soon\n\n") },
		"a short token":      func(c *Config) { c.TokenFile = file("short", goodToken+"\ns3cret\n") },
		"a large file":       func(c *Config) { c.TokenFile = file("large", strings.Repeat("x", maxFile+1)) },
		"no certificate":     func(c *Config) { c.TLSCert, c.TLSKey = file("cert", "x"), file("key", "y") },
	} {
		c := onLoopback()
		set(&c)
		_, err := NewServer(c, newTestHandler(newMemory()))
		if err == nil || engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "httpapi.Config.T") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
