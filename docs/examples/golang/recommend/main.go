// Command recommend prints what keyfold recommends to a user.
//
//	KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... go run ./recommend 17
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Product is one that is recommended.
type Product struct {
	ID    int32   `json:"product_id"`
	Name  string  `json:"product_name"`
	Score float64 `json:"score"`
}

// Recommendations returns the products for a user, the best first.
func Recommendations(ctx context.Context, base, token, user string, options url.Values) ([]Product, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/users/"+url.PathEscape(user)+"/recommendations?"+options.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("keyfold answered %s: %s", answer.Status, body)
	}
	var decoded struct {
		Recommendations []Product `json:"recommendations"`
	}
	err = json.Unmarshal(body, &decoded)
	return decoded.Recommendations, err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./recommend 17")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	options := url.Values{"k": {"5"}, "exclude": {"bought"}}
	products, err := Recommendations(ctx, cmp.Or(os.Getenv("KEYFOLD_URL"), "http://127.0.0.1:7080"), os.Getenv("KEYFOLD_TOKEN"), os.Args[1], options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // a page goes on without recommendations
	}
	for _, p := range products {
		fmt.Fprintf(os.Stdout, "%.3f  %s\n", p.Score, p.Name)
	}
}
