package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// recordingPage returns the address of a page whose recordings record makes.
func recordingPage(t *testing.T, record func(context.Context, Recording) (*profile.Profile, error)) string {
	t.Helper()
	page := New(Options{Name: "x", Status: testStatus, Record: record})
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server.URL + "/api/record"
}

// post posts a form, and returns the answer and its body.
func post(t *testing.T, address string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

func TestRecord(t *testing.T) {
	at := time.Now()
	var asked Recording
	address := recordingPage(t, func(_ context.Context, wanted Recording) (*profile.Profile, error) {
		asked = wanted
		switch wanted.PID {
		case 404:
			return nil, ErrNoProcess
		case 500:
			return nil, errors.New("no room")
		case 7:
			return nil, nil
		}
		return profile.ParseData(fioProfile(t, at).Data)
	})
	answer, body := post(t, address, url.Values{"pid": {"4711"}})
	require.Equal(t, http.StatusOK, answer.StatusCode, body)
	require.Equal(t, []any{uint32(4711), 997, 10 * time.Second}, []any{asked.PID, asked.Rate, asked.During})
	require.Regexp(t, `^attachment; filename=process-4711-.*\.pb\.gz$`, answer.Header.Get("Content-Disposition"))
	made, err := profile.ParseData([]byte(body))
	require.NoError(t, err)
	require.NotEmpty(t, made.Sample)

	form := url.Values{"pid": {"4711"}, "rate": {"4999"}, "seconds": {"60"}, "format": {"html"}}
	answer, body = post(t, address, form)
	require.Equal(t, []any{4999, time.Minute, "html"}, []any{asked.Rate, asked.During, asked.Format.Name})
	require.Equal(t, "text/html; charset=utf-8", answer.Header.Get("Content-Type"))
	require.Contains(t, body, "io_submit")
	require.True(t, strings.HasPrefix(answer.Header.Get("Content-Disposition"), "attachment;"))

	for _, test := range []struct {
		form   url.Values
		status int
		says   string
	}{
		{url.Values{}, http.StatusBadRequest, `pid "" is no process ID`},
		{url.Values{"pid": {"0"}}, http.StatusBadRequest, `pid "0" is no process ID`},
		{url.Values{"pid": {"1"}, "seconds": {"61"}}, http.StatusBadRequest, `seconds "61" is no number from 1 to 60`},
		{url.Values{"pid": {"1"}, "rate": {"5001"}}, http.StatusBadRequest, `rate "5001" is no number from 1 to 5000`},
		{url.Values{"pid": {"1"}, "format": {"x"}}, http.StatusBadRequest, "pprof"},
		{url.Values{"pid": {"404"}}, http.StatusNotFound, "there is no such process"},
		{url.Values{"pid": {"500"}}, http.StatusInternalServerError, "recording: no room"},
		{url.Values{"pid": {"7"}}, http.StatusNotFound, "process 7 used no CPU during the recording"},
		{url.Values{"pid": {"1"}, "more": {strings.Repeat("x", 20_000)}}, http.StatusBadRequest, "too large"},
	} {
		answer, body := post(t, address, test.form)
		require.Equal(t, test.status, answer.StatusCode, body)
		require.Contains(t, body, test.says)
	}
}

// TestRecordRefuses: a link, or a page of another site, cannot start a recording, and one recording is made at a time.
func TestRecordRefuses(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	address := recordingPage(t, func(context.Context, Recording) (*profile.Profile, error) {
		close(begun)
		<-end
		return nil, nil
	})
	got, err := http.Get(address + "?pid=1")
	require.NoError(t, err)
	got.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode)
	require.Equal(t, "POST", got.Header.Get("Allow"))
	form := url.Values{"pid": {"1"}}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://elsewhere.example"}} {
		answer, _ := post(t, address, form, header...)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, header)
	}
	first := make(chan int)
	go func() {
		answer, _ := post(t, address, form)
		first <- answer.StatusCode
	}()
	<-begun
	answer, body := post(t, address, form, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Contains(t, body, "only one runs at a time")
	close(end)
	require.Equal(t, http.StatusNotFound, <-first)

	answer, _ = post(t, recordingPage(t, nil), form)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// TestRecordForm: the page of a flame graph offers to record its processes.
func TestRecordForm(t *testing.T) {
	for query, want := range map[string]string{"": `value=""`, "&pid=4711": `value="4711"`} {
		page := testPage(t, time.Now())
		page.options.Record = func(context.Context, Recording) (*profile.Profile, error) { return nil, nil }
		_, body := get(t, serve(t, page).URL+prefix+"/flame?range=last&target="+fioID()+query)
		require.Regexp(t, `<input id="record-pid" name="pid" `+want, body)
		require.Contains(t, body, `<option value="4711">fio</option>`)
	}
	_, body := get(t, serve(t, testPage(t, time.Now())).URL+prefix+"/flame?range=last&target="+fioID())
	require.NotContains(t, body, "record-pid")
}
