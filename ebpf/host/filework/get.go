package filework

import "time"

// Get is like Do for work that has a result. It passes a late result to drop, which releases it; drop may be nil if
// results need no release.
func Get[T any](p *Pool, o Origin, what string, patience time.Duration,
	work func() (T, error), drop func(T)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	err := p.Do(o, what, patience, func() {
		result, err := work()
		done <- outcome{result, err}
	})
	if err == nil {
		out := <-done
		return out.result, out.err
	}
	if drop != nil && !Refused(err) {
		go func() {
			if late := <-done; late.err == nil {
				drop(late.result)
			}
		}()
	}
	return *new(T), err
}
