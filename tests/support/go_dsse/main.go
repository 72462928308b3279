// Verifies a DSSE envelope on standard input with the PEM key in the file that is named.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

// unnamed verifies by its key whatever id the signature has, as cosign does.
type unnamed struct{ dsse.Verifier }

func (unnamed) KeyID() (string, error) { return "", nil }

func main() {
	var envelope dsse.Envelope
	if err := json.NewDecoder(os.Stdin).Decode(&envelope); err != nil {
		panic(err)
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	key, err := signerverifier.LoadKey(raw)
	if err != nil {
		panic(err)
	}
	verifier, err := signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	if err != nil {
		panic(err)
	}
	all, err := dsse.NewEnvelopeVerifier(unnamed{verifier})
	if err != nil {
		panic(err)
	}
	accepted, err := all.Verify(context.Background(), &envelope)
	if err != nil {
		fmt.Println("bad", err)
		return
	}
	fmt.Println("good", len(accepted))
}
