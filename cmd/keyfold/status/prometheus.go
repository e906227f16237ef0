package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"keyfold/service/dashboard"
)

// prometheus is asked over its HTTP API.
type prometheus struct {
	base           url.URL
	user, password string
	client         http.Client
}

// newPrometheus returns nil where no address is set. The error does not repeat the address, which
// may hold a password.
func newPrometheus(address string) (*prometheus, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // documented
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("PROMETHEUS_URL is no address: it must be like http://prometheus:9090")
	}
	p := &prometheus{base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + "/api/v1/"}, client: http.Client{Timeout: 3 * time.Second}}
	if base.User != nil {
		p.user = base.User.Username()
		p.password, _ = base.User.Password()
	}
	return p, nil
}

// maxAnswer bounds what is read of an answer: another server may listen there.
const maxAnswer = 4 << 20

// get asks for a path and reads the data of the answer.
func (p *prometheus) get(ctx context.Context, path string, query url.Values, data any) error {
	address := p.base
	address.Path += path
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	if p.user != "" {
		request.SetBasicAuth(p.user, p.password)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer from Prometheus; check that it runs, and that PROMETHEUS_URL is right (%w)", unwrapURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer of Prometheus is %s: is PROMETHEUS_URL right?", response.Status)
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err == nil && answer.Status != "success" {
		err = fmt.Errorf("its status is %q: %s", answer.Status, answer.Error)
	}
	if err != nil {
		return fmt.Errorf("what answers at PROMETHEUS_URL is not Prometheus: %w", err)
	}
	return nil
}

// alerts returns those that fire or are pending, the firing ones first, those of keyfold alone.
func (p *prometheus) alerts(ctx context.Context) ([]dashboard.Alert, error) {
	var data struct {
		Alerts []struct {
			Labels, Annotations map[string]string
			State               string
			ActiveAt            time.Time
			Value               string
		}
	}
	if err := p.get(ctx, "alerts", nil, &data); err != nil {
		return nil, err
	}
	var all []dashboard.Alert
	for _, one := range data.Alerts {
		_, anchor, _ := strings.Cut(one.Annotations["runbook_url"], "RUNBOOK.md#")
		if !strings.HasPrefix(one.Labels["alertname"], "Keyfold") {
			continue
		}
		all = append(all, dashboard.Alert{
			Name: one.Labels["alertname"], State: one.State, Severity: one.Labels["severity"], Summary: one.Annotations["summary"],
			Runbook: anchor, Since: one.ActiveAt, Value: one.Value,
		})
	}
	slices.SortStableFunc(all, func(a, b dashboard.Alert) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Since.Compare(b.Since)) // "firing" is before "pending"
	})
	return all, nil
}

// unwrapURL leaves the address out of an error.
func unwrapURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}
