// Answers questions about signed notes and trees, with the libraries that others use.
//
// Standard input has one question as JSON, standard output gets the answer.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	tnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

type question struct {
	Ask       string
	Note      string
	Keys      []string
	Cosigners []string
	Index     uint64
	Old       uint64
	Size      uint64
	Leaf      []byte
	Path      [][]byte
	OldRoot   []byte
	Root      []byte
	Secret    string
	Text      string
}

func answer(q question) (any, error) {
	switch q.Ask {
	case "open":
		var known []note.Verifier
		for _, key := range q.Keys {
			one, err := note.NewVerifier(key)
			if err != nil {
				return nil, err
			}
			known = append(known, one)
		}
		for _, key := range q.Cosigners {
			one, err := tnote.NewVerifierForCosignatureV1(key)
			if err != nil {
				return nil, err
			}
			known = append(known, one)
		}
		opened, err := note.Open([]byte(q.Note), note.VerifierList(known...))
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, one := range opened.Sigs {
			names = append(names, one.Name)
		}
		return map[string]any{"text": opened.Text, "names": names}, nil
	case "sign":
		signer, err := note.NewSigner(q.Secret)
		if err != nil {
			return nil, err
		}
		signed, err := note.Sign(&note.Note{Text: q.Text}, signer)
		return string(signed), err
	case "cosign":
		signer, err := tnote.NewSignerForCosignatureV1(q.Secret)
		if err != nil {
			return nil, err
		}
		signed, err := note.Sign(&note.Note{Text: q.Text}, signer)
		return string(signed), err
	case "inclusion":
		return true, proof.VerifyInclusion(rfc6962.DefaultHasher, q.Index, q.Size, q.Leaf, q.Path, q.Root)
	case "consistency":
		return true, proof.VerifyConsistency(rfc6962.DefaultHasher, q.Old, q.Size, q.Path, q.OldRoot, q.Root)
	}
	return nil, fmt.Errorf("unknown question %s", q.Ask)
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		panic(err)
	}
	answers := []any{}
	for _, q := range questions {
		said, err := answer(q)
		if err != nil {
			answers = append(answers, map[string]string{"error": err.Error()})
		} else {
			answers = append(answers, map[string]any{"said": said})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
