/** Where a new template begins: two steps, the second of which a reviewer sees. */
export const STARTER = `name: My Template
description: What it does, in a sentence.
version: "1.0.0"
industry: custom
visibility: private

inputSchema:
  type: object
  required: [text]
  properties:
    text:
      type: string
      description: The text to work on.

hitl:
  requiredFor: [answer]

steps:
  - id: facts
    prompt: |-
      <text>
      {{input.text}}
      </text>

      List the facts in the text above, one on each line.
  - id: answer
    dependsOn: [facts]
    prompt: |-
      Write a summary of three sentences from these facts only:

      {{facts.output}}
`;
