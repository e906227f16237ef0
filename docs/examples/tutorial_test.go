package examples_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/sink/sqlite"
)

// The tutorial's services are run as they stand on the page, but for the server's address.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile("../tutorial.md")
	must.OK(t, err)
	for name, command := range map[string]string{"shop.php": "php shop.php ", "main.go": "./shop "} {
		t.Run(name, func(t *testing.T) {
			s, address := openAPI(t)
			folder, err := process.TempDir()
			must.OK(t, err)
			code := strings.ReplaceAll(blockOf(t, string(page), name), "http://127.0.0.1:7080", address)
			must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(code), 0o600))
			if name == "main.go" {
				if code, out, errs := run(t, nil, "", "go", "build", "-o", filepath.Join(folder, "shop"), filepath.Join(folder, name)); code != 0 {
					t.Fatal(out, errs)
				}
			}
			service := func(arguments string) (int, string, string) {
				return run(t, nil, "", "sh", "-c", "cd '"+folder+"' && "+command+arguments)
			}
			status, out, errs := service("search 4242 'trail running shoes'")
			if status != 0 || s.len() != 1 || !strings.HasPrefix(out, `{"accepted":1,"duplicate":0,"message_ids":["`) {
				t.Fatalf("%d, %d stored: %s%s", status, s.len(), out, errs)
			}
			id := strings.Split(out, `"`)[7]
			checkEvent(t, s.body(id), profile.Event{UserID: 4242, Type: profile.Search, Phrase: "trail running shoes"})

			writeProfile(t, filepath.Join(folder, "keyfold-data"))
			if _, out, errs := service("recommend 17"); !strings.Contains(out+errs, "user 17 has no vector yet") {
				t.Errorf("a user without a profile: %s%s", out, errs)
			}
			want := "user 4242: 2 events, 2 components\n  0.800  shoe\n  0.600  mug"
			if code, out, errs := service("recommend 4242"); code != 0 || out != want {
				t.Errorf("%d: %s%s, want %s", code, out, errs, want)
			}
		})
	}
}

// openAPI is an API that asks for no token: what stands before it adds one.
func openAPI(t *testing.T) (*store, string) {
	s, environment := api(t)
	target, err := url.Parse(strings.TrimPrefix(environment[0], "KEYFOLD_URL="))
	must.OK(t, err)
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s, server.URL
}

// blockOf returns the code that follows the paragraph of a file's name.
func blockOf(t *testing.T, page, name string) string {
	t.Helper()
	found := regexp.MustCompile("(?m)^[^ \n].*" + regexp.QuoteMeta(name) + "`.*:\n\n((?:    .*\n|\n)+)").FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no code of %s", name)
	}
	return regexp.MustCompile("(?m)^    ").ReplaceAllString(found[1], "")
}

// writeProfile writes what keyfold-lite would: a user's vector and two products.
func writeProfile(t *testing.T, folder string) {
	t.Helper()
	must.OK(t, os.Mkdir(folder, 0o700))
	file, err := sqlite.Open(filepath.Join(folder, "keyfold.db"), sqlite.Settings{Dimensions: 2, History: profile.Mass})
	must.OK(t, err)
	must.OK(t, file.PutProducts(t.Context(), []profile.Product{
		{ID: 1, Name: "mug", Vector: []float32{2, 0}},
		{ID: 2, Name: "shoe", Vector: []float32{0, 3}},
	}, 1))
	p := &profile.Profile{
		UserID: 4242, Version: 1, Vector: []float64{.6, .8}, Mass: 1, Updated: 1, LastType: profile.Search, LastID: "a",
		EventCount: 2, History: profile.Mass, CreatedAt: 1, WrittenAt: 1,
	}
	for _, err := range file.Swap(t.Context(), []*profile.Profile{p}) {
		must.OK(t, err)
	}
	must.OK(t, file.Close())
}
