package kernel

import "testing"

// mostVerified is how many instructions the verifier may process: half of the limit for a program since Linux 5.2,
// BPF_COMPLEXITY_LIMIT_INSNS.
const mostVerified = 1_000_000 / 2

// TestVerifierCost shows how many instructions this kernel's verifier has processed, and demands that as many again
// would still be accepted. The workflow "verifier cost" compares the figure before and after a change.
func TestVerifierCost(t *testing.T) {
	info, err := load(t).objects.SampleCpu.Info()
	if err != nil {
		t.Fatal(err)
	}
	verified, ok := info.VerifiedInstructions()
	if !ok {
		t.Log("this kernel does not count, being older than 5.16")
		return
	}
	t.Logf("verified instructions: %s %d", info.Name, verified)
	if verified == 0 || verified > mostVerified {
		t.Errorf("the verifier looked at %d instructions, which should be at most %d", verified, mostVerified)
	}
}
